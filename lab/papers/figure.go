package papers

import "math"

// Figure is one published number beside the simulator's.
type Figure struct {
	What   string  `json:"what"`
	Source string  `json:"source"`
	Paper  float64 `json:"paper"`
	Ours   float64 `json:"ours"`
	// Low and High are the published range, where it is one; Paper is then 0.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	Unit string  `json:"unit"` // empty for a ratio
	// Fitted says that a constant was fitted on this figure.
	Fitted bool `json:"fitted"`
}

// tolerance is how far a ratio may be off, as a share of its gain.
const tolerance = 0.15

// Holds reports whether the figure is reached: a gain within 15 % of the gain, a
// number with a unit within 15 %, a range anywhere in it.
func (f *Figure) Holds() bool {
	switch {
	case f.Paper == 0:
		return f.Ours >= f.Low && f.Ours <= f.High
	case f.Unit == "":
		return math.Abs(f.Ours-f.Paper) <= tolerance*math.Abs(f.Paper-1)
	}
	return math.Abs(f.Ours-f.Paper) <= tolerance*f.Paper
}

// Table is some figures of one paper.
type Table struct {
	Title   string   `json:"title"`
	Figures []Figure `json:"figures"`
}
