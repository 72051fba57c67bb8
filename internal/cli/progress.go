package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	meterDelay    = 500 * time.Millisecond // shorter operations show no bar
	meterInterval = 100 * time.Millisecond // between two drawings
	meterCells    = 24                     // width of the bar
)

// A Meter shows the progress and the remaining time of an operation on a terminal. A nil Meter
// shows nothing. Methods are safe for concurrent use.
type Meter struct {
	mu      sync.Mutex
	label   string
	amount  func(int64) string // formats a quantity
	started time.Time
	drawn   time.Time
	// first is the amount at the first update: what was done before does not say how fast the operation is.
	first   int64
	updated bool

	screen StatusLine
}

// A StatusLine is a line on standard error that is drawn again and again, as wide as the terminal is at that time. Methods
// of a nil StatusLine show nothing.
type StatusLine struct {
	w       io.Writer
	columns func() int // of the terminal; 0: unknown
	drew    int        // columns of the last drawing
	visible bool
}

// NewStatusLine returns a line, or nil if standard error is not a terminal.
func NewStatusLine(s *Streams) *StatusLine {
	if !s.ErrTerminal {
		return nil
	}
	return &StatusLine{w: s.Err, columns: s.errColumns}
}

// Draw draws what line returns for a number of columns; 0 are unknown. What takes more is cut.
func (l *StatusLine) Draw(line func(columns int) string) {
	if l == nil {
		return
	}
	columns := l.columns()
	room := max(columns-1, 0) // the last column stays free: some terminals break the line behind it
	text := line(room)
	if room > 0 {
		text = cut(text, room)
	}
	fmt.Fprint(l.w, l.toStart(columns), text, "\x1b[K")
	l.drew, l.visible = Cells(text), true
}

// Clear removes the line.
func (l *StatusLine) Clear() {
	if l != nil && l.visible {
		fmt.Fprint(l.w, l.toStart(l.columns()), "\x1b[K")
		l.visible = false
	}
}

// toStart moves to the beginning of what was drawn. A terminal that has become narrower has broken it into lines, which are
// removed.
func (l *StatusLine) toStart(columns int) string {
	if columns <= 0 || l.drew <= columns {
		return "\r"
	}
	return fmt.Sprintf("\r\x1b[%dA\x1b[J", (l.drew-1)/columns)
}

// FitName returns the progress of one of several files, such as "2/40 report.md: part 7/23" of "2/40", "report.md" and
// "part 7/23". A narrow terminal has the end of the name, then none of it. 0 columns are unknown.
func FitName(count, name, text string, columns int) string {
	const least = 8 // columns of a name that tell something
	before, behind := count+" ", ": "+text
	room := columns - Cells(before) - Cells(behind)
	if columns <= 0 || Cells(name) <= room {
		return before + name + behind
	}
	if room >= least {
		for i := range name {
			if Cells(name[i:]) < room {
				return before + "…" + name[i:] + behind
			}
		}
	}
	return count + behind
}

// NewMeter returns a meter, or nil if standard error is not a terminal.
func NewMeter(s *Streams, label string, amount func(int64) string) *Meter {
	if !s.ErrTerminal {
		return nil
	}
	return &Meter{label: label, amount: amount, started: time.Now(), screen: *NewStatusLine(s)}
}

// Update draws the bar, at most once per meterInterval.
func (m *Meter) Update(done, total int64) {
	if m == nil || total <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.updated {
		m.first, m.updated = done, true
	}
	now := time.Now()
	if now.Sub(m.started) < meterDelay || now.Sub(m.drawn) < meterInterval {
		return
	}
	m.drawn = now
	m.screen.Draw(func(columns int) string { return m.line(done, total, now.Sub(m.started), columns) })
}

// line formats the label, the bar, the amounts and the remaining time at the current rate, in so many columns:
// a narrow terminal has a shorter bar, then no amounts, then no bar. 0 columns are unknown.
func (m *Meter) line(done, total int64, elapsed time.Duration, columns int) string {
	done = min(max(done, 0), total)
	amounts := fmt.Sprintf("  %s of %s", m.amount(done), m.amount(total))
	left := ""
	if done > m.first {
		left = fmt.Sprintf(", %s left", FormatLeft(time.Duration(float64(elapsed)*float64(total-done)/float64(done-m.first))))
	}
	line := ""
	for _, form := range []struct {
		cells int
		rest  string
	}{{meterCells, amounts + left}, {meterCells / 2, amounts + left}, {meterCells / 2, left}, {meterCells / 4, left}, {0, left}, {0, ""}} {
		bar := ""
		if form.cells > 0 {
			full := int(done * int64(form.cells) / total)
			bar = strings.Repeat("█", full) + strings.Repeat("░", form.cells-full) + " "
		}
		line = fmt.Sprintf("%s %s%3d%%%s", m.label, bar, done*100/total, form.rest)
		if columns <= 0 || Cells(line) <= columns {
			return line
		}
	}
	return line
}

// Finish removes the bar. Further calls do nothing.
func (m *Meter) Finish() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.screen.Clear()
}

// FormatLeft formats a remaining time as minutes and seconds, or with hours.
func FormatLeft(d time.Duration) string {
	seconds := int(d.Round(time.Second) / time.Second)
	if seconds >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
	}
	return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
}

// FormatTokens formats the amount of a meter that counts tokens.
func FormatTokens(n int64) string { return fmt.Sprintf("%d tokens", n) }
