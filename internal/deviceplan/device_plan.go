package deviceplan

import "github.com/llmrun/llmrun/internal/bench"

// Options say what is planned, and on which devices.
type Options struct {
	Model   ModelSource
	Devices []string // one or two names of the list of devices
	Tokens  []int    // that are multiplied together; 1 is decoding
	// Real measures every piece that may be chosen; without it few are measured and
	// the rest is predicted.
	Real bool
	// Check runs the chosen splits beside each device alone, and compares predictions
	// with measurements that they were not made from.
	Check     bool
	Remeasure bool    // measure even what is known
	Quota     float64 // of an operation's time that the first device may be busy; 0 = all
	Dir       string  // where measurements are kept; "" = nowhere
	// Running and Notify tell of progress, and of kept measurements that are not
	// used; both may be nil.
	Running func(done, total int64)
	Notify  func(text string)
}

// DevicePlan says which device does what of each product.
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
	Measured    int               `json:"measured"` // products, now
}

// PlannedDevice is a device of a plan.
type PlannedDevice struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Start       Time   `json:"start_us"` // what a product takes longer on the idle device, its end included
}

// PlannedMatmul is a matrix and how its product is divided.
type PlannedMatmul struct {
	Name   string `json:"name"`
	Count  int    `json:"count"`
	Tokens int    `json:"tokens"`
	Rows   int    `json:"rows"`
	Cols   int    `json:"cols"`
	Type   string `json:"type"`

	Cut       string        `json:"cut"`
	Pieces    []string      `json:"pieces"`
	Permuted  bool          `json:"permuted"`     // weights are streamed past the activations
	First     float64       `json:"first_device"` // its part of the work
	Predicted Time          `json:"predicted_us"`
	Alone     []Time        `json:"alone_us"` // by device, predicted
	Checked   *CheckedSplit `json:"checked,omitempty"`
}

// CheckedSplit is what a split and its devices alone took when they were run.
type CheckedSplit struct {
	Split Time   `json:"split_us"`
	Alone []Time `json:"alone_us"`
	// Kept is false where a device alone was faster than the split, and gets all.
	Kept bool `json:"kept"`
}

// PlannedPass is the sum over all matrices of the model. What is no product is
// not in it.
type PlannedPass struct {
	Tokens    int     `json:"tokens"`
	Predicted Time    `json:"predicted_us"`
	Alone     []Time  `json:"alone_us"`
	First     float64 `json:"first_device"` // its part of the work
}

// PredictionError compares predictions with measurements they were not made from.
type PredictionError struct {
	Device  string  `json:"device"`
	Matmuls int     `json:"products"`
	Mean    float64 `json:"mean"` // relative
	Largest float64 `json:"largest"`
}

// Time is microseconds.
type Time float64
