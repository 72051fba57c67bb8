// Package plot draws line charts as SVG for the pages of results. Fill in a [Chart]
// with its lines and call [Chart.Write].
package plot

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// Chart is a set of lines with a common x axis.
type Chart struct {
	Title, X, Y string // title of the chart and labels of the axes
	LogY        bool
	XTicks      []float64 // values to label on the x axis; nil selects round values
	Lines       []Line
}

// Line is a line of a chart, or its points without the line.
type Line struct {
	Name   string // name in the legend; "" omits the entry
	Points []Point
	Dashed bool
	Dots   bool // draw the points without the line
	Hollow bool // draw the points as rings
	Colour int  // lines with the same number have the same color; 0 selects the line's position, starting at 1
}

// Point is a data point. Write omits points with a coordinate that is not finite.
type Point struct{ X, Y float64 }

// Sizes in units of the SVG view box, which are pixels at scale 1.
const (
	width, height            = 760, 440
	left, right, top, bottom = 70, 190, 40, 50
)

// colours is a palette that is distinguishable with color blindness.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// axis maps the values low … high to the coordinates from … to.
type axis struct {
	low, high float64
	from, to  float64
	log       bool
}

// at returns the coordinate of a value.
func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	return a.from + (v-low)/(high-low)*(a.to-a.from)
}

// ticks returns round values within the axis.
func (a axis) ticks() (list []float64) {
	if a.log {
		for decade := math.Pow(10, math.Floor(math.Log10(a.low))); decade <= a.high; decade *= 10 {
			for _, m := range []float64{1, 2, 5} {
				if v := decade * m; v >= a.low && v <= a.high {
					list = append(list, v)
				}
			}
		}
		return list
	}
	step := math.Pow(10, math.Floor(math.Log10((a.high-a.low)/4)))
	for _, m := range []float64{5, 2} {
		if (a.high-a.low)/(step*m) >= 4 {
			step *= m
			break
		}
	}
	for v := math.Ceil(a.low/step) * step; v <= a.high+step/1e6; v += step {
		list = append(list, v)
	}
	return list
}

// Write writes the chart as SVG.
func (c *Chart) Write(w io.Writer) error {
	x, y := c.axes()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="22" font-size="15">%s</text>`+"\n", left, html.EscapeString(c.Title))
	ticks := c.XTicks
	if ticks == nil {
		ticks = x.ticks()
	}
	for _, v := range ticks {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n",
			x.at(v), top, x.at(v), height-bottom, x.at(v), height-bottom+16, roundTick(v))
	}
	for _, v := range y.ticks() {
		fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%g</text>`+"\n",
			left, y.at(v), width-right, y.at(v), left-6, y.at(v)+4, roundTick(v))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (left+width-right)/2, height-10, html.EscapeString(c.X))
	fmt.Fprintf(&b, `<text x="16" y="%d" text-anchor="middle" transform="rotate(-90 16 %d)">%s</text>`+"\n", (top+height-bottom)/2, (top+height-bottom)/2, html.EscapeString(c.Y))
	named := 0
	for i := range c.Lines {
		l := &c.Lines[i]
		if l.Colour == 0 {
			l.Colour = i + 1
		}
		l.draw(&b, x, y)
		if l.Name != "" {
			l.drawLegendEntry(&b, top+8+18*named)
			named++
		}
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// draw draws the line or its points.
func (l *Line) draw(b *strings.Builder, x, y axis) {
	var path []string
	for _, p := range l.Points {
		if !finite(p, y.log) {
			continue
		}
		path = append(path, fmt.Sprintf("%.1f,%.1f", x.at(p.X), y.at(p.Y)))
		if l.Dots {
			l.dot(b, x.at(p.X), y.at(p.Y))
		}
	}
	if !l.Dots {
		fmt.Fprintf(b, `<polyline points="%s" fill="none" %s/>`+"\n", strings.Join(path, " "), l.stroke())
	}
}

// drawLegendEntry draws the line's entry in the legend.
func (l *Line) drawLegendEntry(b *strings.Builder, at int) {
	if l.Dots {
		l.dot(b, width-right+24, float64(at))
	} else {
		fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" %s/>`, width-right+12, at, width-right+36, at, l.stroke())
	}
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", width-right+42, at+4, html.EscapeString(l.Name))
}

func (l *Line) colour() string { return colours[(l.Colour-1)%len(colours)] }

func (l *Line) stroke() string {
	stroke := fmt.Sprintf(`stroke="%s" stroke-width="2"`, l.colour())
	if l.Dashed {
		stroke += ` stroke-dasharray="6 4"`
	}
	return stroke
}

func (l *Line) dot(b *strings.Builder, x, y float64) {
	fill := l.colour()
	if l.Hollow {
		fill = "white"
	}
	fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s" stroke="%s" stroke-width="1.5"/>`+"\n", x, y, fill, l.colour())
}

// axes returns the axes that contain all points.
func (c *Chart) axes() (x, y axis) {
	x = axis{low: math.Inf(1), high: math.Inf(-1), from: left, to: width - right}
	y = axis{low: math.Inf(1), high: math.Inf(-1), from: height - bottom, to: top, log: c.LogY}
	for _, l := range c.Lines {
		for _, p := range l.Points {
			if finite(p, c.LogY) {
				x.low, x.high = min(x.low, p.X), max(x.high, p.X)
				y.low, y.high = min(y.low, p.Y), max(y.high, p.Y)
			}
		}
	}
	if !c.LogY {
		y.low = min(0, y.low)
	}
	for _, a := range []*axis{&x, &y} {
		switch {
		case a.low > a.high: // no points
			a.low, a.high = 1, 2
		case a.low == a.high:
			a.low, a.high = a.low-math.Abs(a.low)/2-1e-9, a.high+math.Abs(a.high)/2+1e-9
		}
	}
	if c.LogY {
		y.low, y.high = y.low/1.2, y.high*1.2
	} else {
		y.high *= 1.05
	}
	return x, y
}

// finite reports whether a point can be drawn. A logarithmic axis requires y > 0.
func finite(p Point, log bool) bool {
	return !math.IsNaN(p.X+p.Y) && !math.IsInf(p.X, 0) && !math.IsInf(p.Y, 0) && (!log || p.Y > 0)
}

// roundTick removes the rounding error of repeated additions from a tick value.
func roundTick(v float64) float64 {
	if v == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-3)
	return math.Round(v/unit) * unit
}
