package deviceplan

import "github.com/llmrun/llmrun/internal/bench"

// Options configure a plan.
type Options struct {
	Model   ModelSource
	Devices []string // one or two names of DeviceList
	Tokens  []int    // numbers of tokens in a matmul; 1 = decoding
	// Real measures every candidate piece; without it a few are measured and the others
	// predicted.
	Real bool
	// Check runs the planned splits and each device alone, and compares predictions with
	// held-out measurements.
	Check     bool
	Remeasure bool    // repeat saved measurements
	Quota     float64 // part of a matmul's time that the first device may be busy; 0 = all
	Dir       string  // directory of saved measurements; "" = none
	// Running receives the progress, and Notify the reason why saved measurements are not used.
	// Both may be nil.
	Running func(done, total int64)
	Notify  func(text string)
}

// DevicePlan is a plan of the matmuls of a model: the pieces of each matmul and their devices.
type DevicePlan struct {
	Machine     bench.Machine     `json:"machine"`
	Model       string            `json:"model"`
	Devices     []PlannedDevice   `json:"devices"`
	Mode        string            `json:"mode"` // "prediction" or "real execution"
	Quota       float64           `json:"share,omitempty"`
	Copy        Time              `json:"copy_us"`
	Matmuls     []PlannedMatmul   `json:"products"`
	Passes      []PlannedPass     `json:"passes"`
	Predictions []PredictionError `json:"predictions,omitempty"`
	Measured    int               `json:"measured"` // matmuls measured for this plan
}

// PlannedDevice is a device of a plan.
type PlannedDevice struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Start       Time   `json:"start_us"` // overhead of a matmul on an idle device, including the wait for its end
}

// PlannedMatmul is the split of one matmul.
type PlannedMatmul struct {
	Name   string `json:"name"`
	Count  int    `json:"count"`
	Tokens int    `json:"tokens"`
	Rows   int    `json:"rows"`
	Cols   int    `json:"cols"`
	Type   string `json:"type"`

	Cut       string        `json:"cut"`
	Pieces    []string      `json:"pieces"`
	Permuted  bool          `json:"permuted"`     // the device streams weights past resident activations
	First     float64       `json:"first_device"` // fraction of the work
	Predicted Time          `json:"predicted_us"`
	Alone     []Time        `json:"alone_us"` // predicted for each device alone
	Checked   *CheckedSplit `json:"checked,omitempty"`
}

// CheckedSplit holds the measured times of a split and of each device alone.
type CheckedSplit struct {
	Split Time   `json:"split_us"`
	Alone []Time `json:"alone_us"`
	// Kept is false if one device alone was faster than the split and computes the whole matmul.
	Kept bool `json:"kept"`
}

// PlannedPass is the sum over all matmuls of a pass, without other operations.
type PlannedPass struct {
	Tokens    int     `json:"tokens"`
	Predicted Time    `json:"predicted_us"`
	Alone     []Time  `json:"alone_us"`
	First     float64 `json:"first_device"` // fraction of the work
}

// PredictionError compares predictions with held-out measurements.
type PredictionError struct {
	Device  string  `json:"device"`
	Matmuls int     `json:"products"`
	Mean    float64 `json:"mean"` // relative
	Largest float64 `json:"largest"`
}

// Time is a time in microseconds.
type Time float64
