package exec

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/lab/sim"
)

// TestSplitStepsAreTraced: the host's submission, own rows and wait follow each other, and the
// device's work is inside of them, for devices that measure their work and for others. The trace has the clock of a
// simulated device. The clock of another device runs on between two readings, so its work is only in order.
func TestSplitStepsAreTraced(t *testing.T) {
	for _, p := range partners(t) {
		o := p.splitWith(t, split{single: 0.5, batch: 0.5}, Options{Threads: 1, Chunk: 8})
		_, simulated := o.Split.Device.(*sim.Device)
		if o.Split.Trace = trace.New(); simulated {
			o.Split.Trace = trace.NewAt(o.Split.Device.Clock().Now)
		}
		m := loadModel(t, synthFS(t, "tiny", "q4_0", 512), "m.gguf", o)
		allLogits(t, m, make([]int32, 8))
		events := traceEvents(t, o.Split.Trace)
		type interval struct{ begin, end float64 }
		var steps, there []interval
		names := map[string]int{}
		for _, e := range events {
			if e.Phase != "X" {
				continue
			}
			names[e.Name]++
			at := interval{e.At, e.At + e.Took}
			switch {
			case strings.HasPrefix(e.Name, "submit "):
				steps = append(steps, at)
			case strings.HasPrefix(e.Name, "host rows of "), strings.HasPrefix(e.Name, "wait for "):
				last := &steps[len(steps)-1]
				require.InDelta(t, last.end, at.begin, 0.002, "spans of the host follow each other")
				last.end = at.end
			default:
				there = append(there, at)
			}
		}
		require.GreaterOrEqual(t, len(steps), 2*4, "queries, output, gate and down of two layers on %s", p.name)
		require.GreaterOrEqual(t, len(there), 2*7, p.name)
		require.Equal(t, 2, names["wait for ffn_gate"], "%v", names)
		require.Equal(t, 2, names["ffn_up"], "%v", names)
		for _, d := range there {
			require.LessOrEqual(t, d.begin, d.end, p.name)
			within := !simulated
			for _, step := range steps {
				within = within || step.begin-0.002 <= d.begin && d.end <= step.end+0.002
			}
			require.True(t, within, "%s: %v of %v", p.name, d, steps)
		}
	}
}

// traceEvent is an event with a duration in a trace.
type traceEvent struct {
	Name   string  `json:"name"`
	Phase  string  `json:"ph"`
	Thread int     `json:"tid"`
	At     float64 `json:"ts"`
	Took   float64 `json:"dur"`
}

// traceEvents returns the events recorded so far, parsed from the written trace.
func traceEvents(t *testing.T, recorder *trace.Recorder) []traceEvent {
	t.Helper()
	var out bytes.Buffer
	_, err := recorder.WriteTo(&out)
	require.NoError(t, err)
	var file struct {
		Events []traceEvent `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &file))
	return file.Events
}
