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
	w       io.Writer
	label   string
	amount  func(int64) string // formats a quantity
	started time.Time
	drawn   time.Time
	visible bool
	// first is the amount at the first update: what was done before does not say how fast the operation is.
	first   int64
	updated bool
}

// NewMeter returns a meter, or nil if standard error is not a terminal.
func NewMeter(s *Streams, label string, amount func(int64) string) *Meter {
	if !s.ErrTerminal {
		return nil
	}
	return &Meter{w: s.Err, label: label, amount: amount, started: time.Now()}
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
	m.drawn, m.visible = now, true
	fmt.Fprintf(m.w, "\r%s\x1b[K", m.line(done, total, now.Sub(m.started)))
}

// line formats the label, the bar, the amounts and the remaining time at the current rate.
func (m *Meter) line(done, total int64, elapsed time.Duration) string {
	done = min(max(done, 0), total)
	full := int(done * meterCells / total)
	bar := strings.Repeat("█", full) + strings.Repeat("░", meterCells-full)
	text := fmt.Sprintf("%s %s %3d%%  %s of %s", m.label, bar, done*100/total, m.amount(done), m.amount(total))
	if done <= m.first {
		return text
	}
	left := time.Duration(float64(elapsed) * float64(total-done) / float64(done-m.first))
	return text + fmt.Sprintf(", %s left", FormatLeft(left))
}

// Finish removes the bar. Further calls do nothing.
func (m *Meter) Finish() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.visible {
		fmt.Fprint(m.w, "\r\x1b[K")
		m.visible = false
	}
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
