package cli

import (
	"fmt"
	"io"
	"math"
	"sort"
	"strings"
	"unicode"
)

// A drawing is a line on a terminal, behind its prompt. It is broken into rows that leave the last column free, because
// terminals differ in where the cursor goes behind that, and it takes the most columns for each cluster, because terminals
// differ in that too: no row is ever broken by the terminal. The cursor is put into a row by writing what is before it, so that
// the terminal itself decides how many columns that takes.
type drawing struct {
	out             io.Writer
	queued          strings.Builder // to be written
	columns, height int             // of the terminal
	prompt          string
	rows            []drawnRow // all of the line
	drawn           bool       // the terminal shows the line
	dirty           bool       // but not as it is
	kept            int        // characters before the first one that has changed since then
	top             int        // the first row that is shown: the line may be longer than the terminal is high
	row             int        // where the cursor is
	column          int        // likewise, at most
}

// drawnRow is a row of a line.
type drawnRow struct {
	start int // its first character
	cells int // columns with the prompt, at most
}

// room returns the most columns of a row.
func (d *drawing) room() int { return max(d.columns-1, 2) }

// layout breaks a line into rows that has changed from a character on.
func (d *drawing) layout(line []rune, from int) {
	kept := sort.Search(len(d.rows), func(i int) bool { return d.rows[i].start >= from })
	kept = max(kept-2, 0) // a cluster at the end of the row before may have become wider, or shorter
	begin := 0
	if kept == 0 {
		d.rows = append(d.rows[:0], drawnRow{0, Cells(d.prompt)})
	} else {
		begin = d.rows[kept].start
		d.rows = append(d.rows[:kept], drawnRow{start: begin})
	}
	for i := begin; i < len(line); {
		end := clusterEnd(line, i)
		if cells := mostCells(line[i:end]); cells <= d.room() {
			d.place(i, cells)
		} else { // in parts, which rows with room for nothing else have
			for part := i; part < end; {
				next := part + 1
				for next < end && cellsOf(line[next]) == 0 {
					next++
				}
				d.place(part, mostCells(line[part:next]))
				part = next
			}
		}
		i = end
	}
}

// place puts a cluster into the last row, or begins one with it.
func (d *drawing) place(start, cells int) (newRow bool) {
	last := &d.rows[len(d.rows)-1]
	if newRow = last.cells+cells > d.room() && last.cells > 0; newRow {
		d.rows = append(d.rows, drawnRow{start: start})
		last = &d.rows[len(d.rows)-1]
	}
	last.cells += cells
	return newRow
}

// extend draws the last character of a line, which was added behind all that is drawn. It reports false if that is not
// enough, because the character changes the width of the cluster before it.
func (d *drawing) extend(line []rune) bool {
	i := len(line) - 1
	if joins(line, i) {
		return false
	}
	if d.place(i, mostCells(line[i:])) {
		d.queued.WriteString("\r\n")
		d.row++
		d.top = max(d.top, d.row-d.height+1)
	}
	d.queued.WriteRune(visible(line, i))
	d.column = d.rows[d.row].cells
	return true
}

// changed says that a line has to be drawn that has changed from a character on.
func (d *drawing) changed(from int) {
	d.kept, d.dirty = min(d.kept, from), true
}

// redraw draws a line in place of what is drawn.
func (d *drawing) redraw(line []rune, pos int) {
	if d.kept < math.MaxInt {
		d.layout(line, d.kept)
		d.kept = math.MaxInt
	}
	if d.drawn {
		d.up(d.row - d.top)
		d.queued.WriteString("\r\x1b[J")
	}
	d.row = sort.Search(len(d.rows), func(i int) bool { return d.rows[i].start > pos }) - 1
	d.top = max(min(d.top, d.row, len(d.rows)-d.height), d.row-d.height+1, 0)
	bottom := min(d.top+d.height, len(d.rows)) - 1
	for i := d.top; i <= bottom; i++ {
		if i > d.top {
			d.queued.WriteString("\r\n")
		}
		d.write(line, i, d.end(line, i))
	}
	d.column = d.rows[d.row].cells
	if d.row < bottom || pos < len(line) {
		d.up(bottom - d.row)
		d.queued.WriteByte('\r')
		d.write(line, d.row, pos)
		d.column = mostCells(line[d.rows[d.row].start:pos])
		if d.row == 0 {
			d.column += Cells(d.prompt)
		}
	}
	d.drawn, d.dirty = true, false
}

// write writes a row up to a character.
func (d *drawing) write(line []rune, row, end int) {
	if row == 0 {
		d.queued.WriteString(d.prompt)
	}
	for i := d.rows[row].start; i < end; i++ {
		d.queued.WriteRune(visible(line, i))
	}
}

// end returns where a row ends.
func (d *drawing) end(line []rune, row int) int {
	if row+1 < len(d.rows) {
		return d.rows[row+1].start
	}
	return len(line)
}

// visible returns what is drawn for a character: control characters, which pasted text may have, and accents that have no
// letter, which would join the prompt, are question marks.
func visible(line []rune, i int) rune {
	switch r := line[i]; {
	case r == '\t':
		return ' '
	case unicode.IsControl(r) || cellsOf(r) == 0 && !joins(line, i):
		return '?'
	default:
		return r
	}
}

func (d *drawing) up(rows int) {
	if rows > 0 {
		fmt.Fprintf(&d.queued, "\x1b[%dA", rows)
	}
}

// clear clears the terminal.
func (d *drawing) clear() {
	d.queued.WriteString("\x1b[H\x1b[2J")
	d.drawn, d.top = false, 0
	d.changed(math.MaxInt)
}

// leave moves the cursor behind the line, which stays on the terminal.
func (d *drawing) leave(line []rune) {
	if d.dirty || d.row < len(d.rows)-1 {
		d.redraw(line, len(line))
	}
	d.queued.WriteString("\r\n")
	d.rows, d.drawn, d.dirty, d.top, d.row, d.column = d.rows[:0], false, false, 0, 0, 0
}

// reflowed expects the terminal to break rows that are wider than it has become, as most do.
func (d *drawing) reflowed(columns, height int) {
	above := d.column / columns
	for _, row := range d.rows[d.top:d.row] {
		above += max(row.cells-1, 0)/columns + 1
	}
	d.top, d.row = 0, min(above, height-1)
}

// send writes what is queued.
func (d *drawing) send() error {
	_, err := io.WriteString(d.out, d.queued.String())
	d.queued.Reset()
	return err
}
