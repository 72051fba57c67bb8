package opencl

import (
	"errors"
	"time"
	"unsafe"

	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/tiering"
)

// tracer turns command events into spans. A nil tracer does nothing.
type tracer struct {
	context  *Context
	recorder *trace.Recorder
	lane     *trace.Lane
	host     *trace.Lane
	pending  []tracedCommand
	// offset converts the device's clock to the recorder's.
	offset time.Duration
	err    error // first error of reading times; finish returns it
}

// tracedCommand is a command whose times the tracer has not read yet.
type tracedCommand struct {
	name      string
	event     uintptr
	submitted time.Duration // time of submission
}

// clockRounds is how often the clocks are compared.
const clockRounds = 8

// startTrace creates the tracer and compares the clocks of host and device. The host
// observes the completion of a command with a delay, so startTrace uses the smallest
// difference of several rounds.
func (c *Context) startTrace(r *trace.Recorder) (err error) {
	t := &tracer{context: c, recorder: r, lane: r.Lane(c.Info.Name, "queue"), host: r.Lane("host", "waits for "+c.Info.Name)}
	m, err := c.Alloc(tiering.Scratch, 4096)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Free()) }()
	c.bytes = make([]byte, 64)
	defer func() { c.bytes = nil }()
	for round := range clockRounds {
		err := status(clEnqueueWriteBuffer, c.queue, m.handle, 1, 0, 64, c.address(), 0, 0, c.eventPointer(true))
		seen := r.Now()
		if err != nil {
			return err
		}
		_, end := t.times(c.event)
		if offset := seen - end; round == 0 || offset < t.offset {
			t.offset = offset
		}
		if err := status(clReleaseEvent, c.event); err != nil {
			return err
		}
	}
	if t.err != nil {
		return t.err
	}
	c.tracer = t
	return nil
}

// finish waits for all commands, so that they are in the trace, and returns an
// error if times are missing.
func (t *tracer) finish() error {
	if t == nil {
		return nil
	}
	return errors.Join(t.context.Finish(), t.err)
}

// times returns the begin and the end of a command on the device's clock.
func (t *tracer) times(event uintptr) (begin, end time.Duration) {
	for what, at := range map[uintptr]*time.Duration{eventStart: &begin, eventEnd: &end} {
		if err := status(clGetEventProfilingInfo, event, what, 8, uintptr(unsafe.Pointer(at)), 0); err != nil && t.err == nil {
			t.err = err
		}
	}
	return begin, end
}

// traced records the command just submitted.
func (c *Context) traced(name string) {
	if t := c.tracer; t != nil {
		t.pending = append(t.pending, tracedCommand{name, c.event, t.recorder.Now()})
	}
}

// collect records a span for the wait that just ended and for all commands before
// it, which are done.
func (t *tracer) collect(waited time.Duration) {
	if t == nil {
		return
	}
	now := t.recorder.Now()
	t.host.Span("wait", now-waited, now, map[string]any{"commands": len(t.pending)})
	for _, p := range t.pending {
		begin, end := t.times(p.event)
		begin, end = begin+t.offset, end+t.offset
		t.lane.Span(p.name, begin, end, map[string]any{"queued_us": float64(max(0, begin-p.submitted)) / float64(time.Microsecond)})
		if err := status(clReleaseEvent, p.event); err != nil && t.err == nil {
			t.err = err
		}
	}
	t.pending = t.pending[:0]
}
