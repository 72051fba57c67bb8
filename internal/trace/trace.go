// Package trace records what happened when, and writes it in the trace event
// format that Chrome's about:tracing, Perfetto and speedscope read.
//
// A [Recorder] holds the spans of one run. Each belongs to a [Lane], a thread of
// a process in the viewer's words: a device's queue, a worker, the host. Spans of
// a lane may lie inside each other, those of different lanes overlap as they
// like:
//
//	r := trace.New()
//	host := r.Lane("host", "main")
//	host.Begin("prefill")
//	…
//	host.End()
//	_, err := r.WriteTo(file)
//
// Everything works on nil: a nil Recorder gives nil Lanes, and a nil Lane records
// nothing and allocates nothing. So who is traced need not know whether he is.
package trace

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// maxSpans bounds the memory of a recorder, about 100 bytes a span. What comes
// later is only counted.
const maxSpans = 1 << 20

// Recorder collects spans. Its methods may be called from any goroutine.
type Recorder struct {
	mu      sync.Mutex
	start   time.Time
	lanes   []*Lane
	spans   []span
	dropped int
}

// span is a finished one, in times since the recorder's start.
type span struct {
	lane       *Lane
	name       string
	begin, end time.Duration
	args       map[string]any
}

// New returns an empty recorder whose time begins now.
func New() *Recorder { return &Recorder{start: time.Now()} }

// Now returns the time since the recorder was made.
func (r *Recorder) Now() time.Duration {
	if r == nil {
		return 0
	}
	return time.Since(r.start)
}

// Lane returns the lane of that name, which is made when it is first asked for.
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

// Total is the spans of one name on a lane, together.
type Total struct {
	Name  string
	Count int
	Time  time.Duration
}

// Totals sums up the spans of a lane, in the order in which names appeared.
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

// Dropped returns how many spans there was no room for.
func (r *Recorder) Dropped() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// Lane is a row of the picture. Begin and End are for one goroutine at a time;
// Span may be called from any.
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

// End ends the span that was begun last.
func (l *Lane) End() { l.EndWith(nil) }

// EndWith is End with figures that the viewer shows beside the span.
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

// Span records a span whose times since the recorder's start are known already:
// what a device says of its own clock. args may be nil.
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

// event is one entry of the file. Times are in microseconds.
type event struct {
	Name     string         `json:"name"`
	Phase    string         `json:"ph"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Time     float64        `json:"ts"`
	Duration *float64       `json:"dur,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// WriteTo writes what was recorded. Spans that are still open are left out.
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

// counter counts what is written.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}
