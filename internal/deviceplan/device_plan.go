// Package deviceplan measures matmuls on the devices of a machine and plans how to split
// each matmul between them.
package deviceplan

import (
	"fmt"
	"io"
	"time"

	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/internal/bench"
)

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

// WriteTables writes the plan in Markdown.
func (p *DevicePlan) WriteTables(w io.Writer) {
	fmt.Fprintf(w, "Matmuls of %s on %s/%s, by %s; times in microseconds.\n\n", p.Model, p.Machine.OS, p.Machine.Arch, p.Mode)
	for _, d := range p.Devices {
		fmt.Fprintf(w, "- %s: %s; start and wait cost %.0f\n", d.Name, d.Description, d.Start)
	}
	if p.Copy > 0 {
		fmt.Fprintf(w, "- a copy to or from a device with memory of its own costs %.0f\n", p.Copy)
	}
	if p.Quota > 0 {
		fmt.Fprintf(w, "- %s may be busy for %.0f %% of the time of a split\n", p.Devices[0].Name, 100*p.Quota)
	}
	p.writeMatmuls(w)
	p.writePasses(w)
	if len(p.Predictions) > 0 {
		fmt.Fprintf(w, "\n| predictions for | held-out matmuls | mean error | largest |\n|---|---|---|---|\n")
		for _, e := range p.Predictions {
			fmt.Fprintf(w, "| %s | %d | %.1f %% | %.1f %% |\n", e.Device, e.Matmuls, 100*e.Mean, 100*e.Largest)
		}
	}
}

func (p *DevicePlan) writeMatmuls(w io.Writer) {
	fmt.Fprintf(w, "\n| matmul | size | tokens | cut | %s computes | predicted |%s measured: split |%s\n|---|---|---|---|---|---|%s---|%s\n", p.Devices[0].Name,
		p.each(func(d string) string { return " " + d + " alone |" }), p.each(func(d string) string { return " measured: " + d + " |" }),
		p.each(func(string) string { return "---|" }), p.each(func(string) string { return "---|" }))
	for _, row := range p.Matmuls {
		fmt.Fprintf(w, "| %s | %d×%d %s | %d | %s | %.0f %% | %.0f |%s", row.Name, row.Rows, row.Cols, row.Type, row.Tokens, row.cut(), 100*row.First, row.Predicted, times(row.Alone))
		if c := row.Checked; c != nil {
			fmt.Fprintf(w, " %.0f |%s\n", c.Split, times(c.Alone))
		} else {
			fmt.Fprintf(w, " |%s\n", p.each(func(string) string { return " |" }))
		}
	}
}

// cut describes the split of a matmul.
func (r *PlannedMatmul) cut() string {
	text := r.Cut
	if r.Checked != nil && !r.Checked.Kept {
		text += ", because a split was slower"
	}
	if !r.Permuted {
		text += ", not permuted"
	}
	return text
}

func (p *DevicePlan) writePasses(w io.Writer) {
	fmt.Fprintf(w, "\n| all matmuls of | planned | tok/s |%s %s computes |\n|---|---|---|%s---|\n",
		p.each(func(d string) string { return " " + d + " alone | tok/s |" }), p.Devices[0].Name, p.each(func(string) string { return "---|---|" }))
	for _, pass := range p.Passes {
		fmt.Fprintf(w, "| %d tokens | %.0f | %.1f |", pass.Tokens, pass.Predicted, pass.speed(pass.Predicted))
		for _, t := range pass.Alone {
			fmt.Fprintf(w, " %.0f | %.1f |", t, pass.speed(t))
		}
		fmt.Fprintf(w, " %.0f %% |\n", 100*pass.First)
	}
}

// each joins the texts for all devices.
func (p *DevicePlan) each(spell func(name string) string) (text string) {
	for _, d := range p.Devices {
		text += spell(d.Name)
	}
	return text
}

func times(list []Time) (text string) {
	for _, t := range list {
		text += fmt.Sprintf(" %.0f |", t)
	}
	return text
}

// Microseconds converts a duration to the unit of a plan's times.
func Microseconds(d time.Duration) Time { return Time(d.Seconds() * 1e6) }

// SpellPieces describes the pieces of a split.
func SpellPieces(s *solve.Split, names []string) (list []string) {
	for _, p := range s.Pieces {
		text := fmt.Sprintf("%s: rows %d–%d, tokens %d–%d", names[p.Device], p.Row, p.Row+p.Rows-1, p.Token, p.Token+p.Tokens-1)
		if p.Padded > p.Tokens {
			text += fmt.Sprintf(" padded to %d", p.Padded)
		}
		list = append(list, text)
	}
	return list
}
