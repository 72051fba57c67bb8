// Package trace records timed spans and writes them in the trace event format that
// Chrome's about:tracing, Perfetto and speedscope read.
//
// A [Recorder] holds the spans of one run. Each belongs to a [Lane], a thread of a
// process in the viewer's terms: a device's queue, a worker, the host. Spans of one
// lane may nest; spans of different lanes may overlap freely:
//
//	r := trace.New()
//	host := r.Lane("host", "main")
//	host.Begin("prefill")
//	…
//	host.End()
//	_, err := r.WriteTo(file)
//
// All methods accept nil: a nil Recorder returns nil Lanes, and a nil Lane records
// nothing and allocates nothing. So traced code need not check whether a trace is
// wanted.
package trace

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// maxSpans bounds a recorder's memory, about 100 bytes per span. Further spans are
// only counted.
const maxSpans = 1 << 20

// Recorder collects spans. Any goroutine may call its methods.
type Recorder struct {
	mu      sync.Mutex
	start   time.Time
	lanes   []*Lane
	spans   []span
	dropped int
}

// span is a finished span, in times since the recorder's start.
type span struct {
	lane       *Lane
	name       string
	begin, end time.Duration
	args       map[string]any
}

// New returns an empty recorder; its time starts now.
func New() *Recorder { return &Recorder{start: time.Now()} }

// Now returns the time since the recorder was created.
func (r *Recorder) Now() time.Duration {
	if r == nil {
		return 0
	}
	return time.Since(r.start)
}

// Lane returns the lane with a name and creates it at the first call.
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

// Total is the combined time of a lane's spans with one name.
type Total struct {
	Name  string
	Count int
	Time  time.Duration
}

// Totals returns the totals of a lane, in order of first appearance.
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

// Dropped returns the number of spans beyond maxSpans.
func (r *Recorder) Dropped() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// Lane is a row of the picture. Begin and End are for one goroutine at a time; Span
// may be called from any.
type Lane struct {
	recorder        *Recorder
	process, thread string
	pid, tid        int
	open            []span
}

// Begin starts a span inside those that are open.
func (l *Lane) Begin(name string) {
	if l != nil {
		l.open = append(l.open, span{name: name, begin: l.recorder.Now()})
	}
}

// End ends the span begun last.
func (l *Lane) End() { l.EndWith(nil) }

// EndWith is End with values that the viewer shows beside the span.
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

// Span records a span with known times since the recorder's start, such as times of
// a device. args may be nil.
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

// event is an entry of the file. Times are in microseconds.
type event struct {
	Name     string         `json:"name"`
	Phase    string         `json:"ph"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Time     float64        `json:"ts"`
	Duration *float64       `json:"dur,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// WriteTo writes the recorded spans. Open spans are left out.
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

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// counter counts written bytes.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}
