package trace

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// file is the part of the trace file that the tests check.
type file struct {
	TraceEvents []struct {
		Name     string
		Phase    string  `json:"ph"`
		Process  int     `json:"pid"`
		Thread   int     `json:"tid"`
		Time     float64 `json:"ts"`
		Duration float64 `json:"dur"`
		Args     map[string]any
	}
}

func write(t *testing.T, r *Recorder) (f file) {
	t.Helper()
	var out bytes.Buffer
	n, err := r.WriteTo(&out)
	require.NoError(t, err)
	require.EqualValues(t, out.Len(), n)
	require.NoError(t, json.Unmarshal(out.Bytes(), &f))
	return f
}

func TestSpansAndLanes(t *testing.T) {
	r := New()
	host, queue, other := r.Lane("host", "main"), r.Lane("gpu", "queue"), r.Lane("host", "reader")
	require.Same(t, host, r.Lane("host", "main"))
	host.Begin("outer")
	host.Begin("inner")
	host.End()
	host.EndWith(map[string]any{"tokens": 3})
	queue.Span("kernel", 2*time.Microsecond, 5500*time.Nanosecond, nil)
	other.Begin("open")

	queue.Span("kernel", 0, time.Microsecond, nil)
	require.Equal(t, []Total{{"kernel", 2, 4500 * time.Nanosecond}}, r.Totals("gpu", "queue"))

	f := write(t, r)
	require.Len(t, f.TraceEvents, 2*3+4)
	names := map[int]string{}
	threads := map[int]int{}
	for _, e := range f.TraceEvents[:6] {
		require.Equal(t, "M", e.Phase)
		if e.Name == "thread_name" {
			names[e.Thread], threads[e.Thread] = e.Args["name"].(string), e.Process
		}
	}
	require.Equal(t, map[int]string{1: "main", 2: "queue", 3: "reader"}, names)
	require.Equal(t, threads[1], threads[3], "one process")
	require.NotEqual(t, threads[1], threads[2], "two processes")

	inner, outer, kernel := f.TraceEvents[6], f.TraceEvents[7], f.TraceEvents[8]
	require.Equal(t, []string{"inner", "outer", "kernel"}, []string{inner.Name, outer.Name, kernel.Name})
	require.GreaterOrEqual(t, inner.Time, outer.Time)
	require.LessOrEqual(t, inner.Time+inner.Duration, outer.Time+outer.Duration)
	require.EqualValues(t, 3, outer.Args["tokens"])
	require.InDelta(t, 2, kernel.Time, 1e-9)
	require.InDelta(t, 3.5, kernel.Duration, 1e-9)
}

func TestNilRecorderRecordsNothing(t *testing.T) {
	var r *Recorder
	lane := r.Lane("host", "main")
	require.Nil(t, lane)
	allocs := testutil.AllocsPerRun(10, 0, func() {
		lane.Begin("a")
		lane.Span("b", 0, r.Now(), nil)
		lane.End()
	})
	require.Zero(t, allocs)
	require.Zero(t, r.Dropped())
	require.Empty(t, write(t, New()).TraceEvents)
}

func TestDroppedSpans(t *testing.T) {
	r := New()
	lane := r.Lane("a", "b")
	r.spans = make([]span, maxSpans)
	lane.Span("late", 0, 1, nil)
	require.Equal(t, 1, r.Dropped())
	require.Len(t, r.spans, maxSpans)
}

func TestEndWithoutBegin(t *testing.T) {
	require.Panics(t, New().Lane("a", "b").End)
}
