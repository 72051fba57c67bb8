package papers

import "math"

// Figure compares a published number with the simulator's number.
type Figure struct {
	What   string  `json:"what"`
	Source string  `json:"source"`
	Paper  float64 `json:"paper"`
	Ours   float64 `json:"ours"`
	// Low and High are the published range if the paper gives a range; Paper is 0 then.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	Unit string  `json:"unit"` // empty for a ratio
	// Fitted reports that a constant was fitted to this figure.
	Fitted bool `json:"fitted"`
}

// tolerance is the largest error, as a fraction of a ratio's gain or of a number with a unit.
const tolerance = 0.15

// Holds reports whether the simulator reaches the figure: a ratio within 15 % of its gain, a number
// with a unit within 15 %, a range anywhere inside it.
func (f *Figure) Holds() bool {
	switch {
	case f.Paper == 0:
		return f.Ours >= f.Low && f.Ours <= f.High
	case f.Unit == "":
		return math.Abs(f.Ours-f.Paper) <= tolerance*math.Abs(f.Paper-1)
	}
	return math.Abs(f.Ours-f.Paper) <= tolerance*f.Paper
}

// Table is a group of figures of one paper.
type Table struct {
	Title   string   `json:"title"`
	Figures []Figure `json:"figures"`
}
