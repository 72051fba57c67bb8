package plot

import (
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChartIsWellFormedAndContainsItsPoints(t *testing.T) {
	for name, c := range map[string]Chart{
		"no lines":  {Title: "a < b & c"},
		"one point": {Lines: []Line{{Name: "x", Points: []Point{{3, 4}}, Dots: true}}},
		"log": {LogY: true, X: "share", Y: "tok/s", Lines: []Line{
			{Name: "measured", Points: []Point{{15, 0.3}, {50, 1}, {100, 70}, {30, 0}, {40, math.NaN()}}},
			{Name: "bound", Dashed: true, Points: []Point{{15, 0.4}, {100, math.Inf(1)}}},
		}},
		"rings": {XTicks: []float64{15, 100}, Lines: []Line{
			{Name: "a", Colour: 2, Points: []Point{{15, 1}, {100, 2}}},
			{Colour: 2, Dots: true, Hollow: true, Points: []Point{{15, 1.5}}},
		}},
		"linear": {Lines: []Line{{Name: "a", Points: []Point{{0, -1}, {10, 99}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			require.NoError(t, c.Write(&b))
			d := xml.NewDecoder(strings.NewReader(b.String()))
			var err error
			for err == nil {
				_, err = d.Token()
			}
			require.ErrorIs(t, err, io.EOF)
			require.NotContains(t, b.String(), "NaN")
			require.NotContains(t, b.String(), "Inf")
			x, y := c.axes()
			for _, l := range c.Lines {
				for _, p := range l.Points {
					if finite(p, c.LogY) {
						require.True(t, x.at(p.X) >= left && x.at(p.X) <= width-right, "%v", p)
						require.True(t, y.at(p.Y) >= top && y.at(p.Y) <= height-bottom, "%v", p)
					}
				}
			}
			require.NotEmpty(t, x.ticks())
			require.Less(t, len(y.ticks()), 25)
		})
	}
}

// TestLegend checks that a line without a name has no legend entry and that lines with
// the same number have the same color.
func TestLegend(t *testing.T) {
	c := Chart{Lines: []Line{
		{Name: "measured", Colour: 5, Points: []Point{{1, 1}, {2, 2}}},
		{Colour: 5, Dots: true, Hollow: true, Points: []Point{{1, 2}}},
		{Name: "other", Points: []Point{{1, 3}, {2, 3}}},
	}}
	var b strings.Builder
	require.NoError(t, c.Write(&b))
	require.Equal(t, 1, strings.Count(b.String(), "<circle"), "only the ring is a circle")
	require.Equal(t, 3, strings.Count(b.String(), colours[4]), "the line, its legend entry and the ring")
	require.Equal(t, 2, strings.Count(b.String(), `x="612"`), "two legend entries")
	require.Less(t, strings.Index(b.String(), ">measured<"), strings.Index(b.String(), ">other<"))
}
