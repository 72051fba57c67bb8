// Package trace records timed spans of a run and writes them in the Trace Event Format,
// which Chrome's about:tracing, Perfetto and speedscope display.
//
// A [Recorder] holds the spans of one run. Each span belongs to a [Lane], which a
// viewer displays as a thread of a process. A lane is the queue of a device, a worker
// or the host. The spans of a lane may nest. Spans of different lanes may overlap:
//
//	r := trace.New()
//	host := r.Lane("host", "main")
//	host.Begin("prefill")
//	…
//	host.End()
//	_, err := r.WriteTo(file)
//
// A nil Recorder and a nil Lane are valid: a nil Recorder returns nil Lanes, and a nil
// Lane records nothing and does not allocate. Code can therefore trace unconditionally.
package trace

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// maxSpans bounds the memory of a recorder to about 100 MB, at 100 bytes per span. The
// recorder only counts further spans.
const maxSpans = 1 << 20

// Recorder collects spans. It is safe for concurrent use.
type Recorder struct {
	now     func() time.Duration // since the start
	mu      sync.Mutex
	lanes   []*Lane
	spans   []span
	dropped int
}

// span is a completed span. Its times are relative to the start of the recorder.
type span struct {
	lane       *Lane
	name       string
	begin, end time.Duration
	args       map[string]any
}

// New returns an empty recorder that starts now.
func New() *Recorder {
	start := time.Now()
	return NewAt(func() time.Duration { return time.Since(start) })
}

// NewAt returns an empty recorder whose times are those of a clock, such as the clock of a simulated device. now must be
// safe for concurrent use.
func NewAt(now func() time.Duration) *Recorder { return &Recorder{now: now} }

// Now returns the time since the start of the recorder.
func (r *Recorder) Now() time.Duration {
	if r == nil {
		return 0
	}
	return r.now()
}

// Lane returns the lane with the given names. It creates the lane on the first call.
func (r *Recorder) Lane(process, thread string) *Lane {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &Lane{recorder: r, process: process, thread: thread, tid: len(r.lanes) + 1}
	processes := 0
	for _, other := range r.lanes {
		if other.process == process {
			if other.thread == thread {
				return other
			}
			l.pid = other.pid
		}
		processes = max(processes, other.pid)
	}
	if l.pid == 0 {
		l.pid = processes + 1
	}
	r.lanes = append(r.lanes, l)
	return l
}

// Total is the number and the total duration of the spans with one name.
type Total struct {
	Name  string
	Count int
	Time  time.Duration
}

// Totals returns the totals of a lane in the order in which the names first appeared.
func (r *Recorder) Totals(process, thread string) (list []Total) {
	if r == nil {
		return nil
	}
	l := r.Lane(process, thread)
	r.mu.Lock()
	defer r.mu.Unlock()
	at := map[string]int{}
	for _, s := range r.spans {
		if s.lane != l {
			continue
		}
		i, ok := at[s.name]
		if !ok {
			i = len(list)
			at[s.name] = i
			list = append(list, Total{Name: s.name})
		}
		list[i].Count++
		list[i].Time += s.end - s.begin
	}
	return list
}

// Dropped returns the number of spans that exceeded the limit of the recorder.
func (r *Recorder) Dropped() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// Lane is a row in the viewer. Begin and End must not be called concurrently. Span is
// safe for concurrent use.
type Lane struct {
	recorder        *Recorder
	process, thread string
	pid, tid        int
	open            []span
}

// Begin starts a span inside the open spans of the lane.
func (l *Lane) Begin(name string) {
	if l != nil {
		l.open = append(l.open, span{name: name, begin: l.recorder.Now()})
	}
}

// End ends the innermost open span.
func (l *Lane) End() { l.EndWith(nil) }

// EndWith ends the innermost open span. The viewer displays args with the span.
func (l *Lane) EndWith(args map[string]any) {
	if l == nil {
		return
	}
	last := len(l.open) - 1
	if last < 0 {
		panic("trace: End without Begin")
	}
	s := l.open[last]
	l.open = l.open[:last]
	l.Span(s.name, s.begin, l.recorder.Now(), args)
}

// Span records a span with known times relative to the start of the recorder, such as
// the times of a device's clock. args may be nil.
func (l *Lane) Span(name string, begin, end time.Duration, args map[string]any) {
	if l == nil {
		return
	}
	r := l.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spans) == maxSpans {
		r.dropped++
		return
	}
	r.spans = append(r.spans, span{l, name, begin, end, args})
}

// event is an entry of the trace file. Times are in microseconds.
type event struct {
	Name     string         `json:"name"`
	Phase    string         `json:"ph"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Time     float64        `json:"ts"`
	Duration *float64       `json:"dur,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// WriteTo writes the trace file. It omits open spans.
func (r *Recorder) WriteTo(w io.Writer) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &counter{to: w}
	separator := "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
	put := func(e event) error {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(out, separator); err != nil {
			return err
		}
		separator = ",\n"
		_, err = out.Write(data)
		return err
	}
	for _, l := range r.lanes {
		for _, name := range [][2]string{{"process_name", l.process}, {"thread_name", l.thread}} {
			e := event{Name: name[0], Phase: "M", Process: l.pid, Thread: l.tid, Args: map[string]any{"name": name[1]}}
			if err := put(e); err != nil {
				return out.n, err
			}
		}
	}
	for _, s := range r.spans {
		took := micros(s.end - s.begin)
		e := event{Name: s.name, Phase: "X", Process: s.lane.pid, Thread: s.lane.tid, Time: micros(s.begin), Duration: &took, Args: s.args}
		if err := put(e); err != nil {
			return out.n, err
		}
	}
	end := "\n]}\n"
	if len(r.lanes) == 0 {
		end = separator + "]}\n"
	}
	_, err := io.WriteString(out, end)
	return out.n, err
}

// micros converts a duration to microseconds, the unit of the trace file.
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// counter counts the bytes written.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}
