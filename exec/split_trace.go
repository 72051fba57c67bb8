package exec

import (
	"time"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/trace"
)

// offloadTrace records the steps of a split pass: the host's work, and when the device completed
// its rows.
type offloadTrace struct {
	recorder         *trace.Recorder // nil: no trace
	host, device     *trace.Lane
	begun, submitted time.Duration // of the current step
}

func newOffloadTrace(r *trace.Recorder, device string) offloadTrace {
	return offloadTrace{recorder: r, host: r.Lane("host", "split steps"), device: r.Lane(device, "offloaded rows")}
}

// record records a completed step. hostDone is when the host's rows were complete.
func (t *offloadTrace) record(clock hetero.Clock, matmuls []matmul, work []offloadedWork, hostDone time.Duration) {
	if t.recorder == nil || len(work) == 0 {
		return
	}
	end, zero := time.Duration(0), t.recorder.Now()-clock.Now()
	for i := range work {
		end = t.recordRows(&work[i], &matmuls[work[i].matmul], end, zero)
	}
	name := matmuls[work[0].matmul].w.Offload.Matmul.Name
	t.host.Span("submit "+name, t.begun, t.submitted, nil)
	t.host.Span("host rows of "+name, t.submitted, hostDone, nil)
	t.host.Span("wait for "+name, hostDone, work[len(work)-1].observed, nil)
}

// recordRows records the device's work on the rows of one matmul, which begins after the
// previous work, and returns its end. zero is the trace's time at the zero of the device's
// clock.
func (t *offloadTrace) recordRows(w *offloadedWork, mul *matmul, after, zero time.Duration) (end time.Duration) {
	args := map[string]any{"tokens": mul.n, "rows": mul.w.Offload.Ranges[w.part].Rows}
	begin := max(w.submitted, after)
	if timed, ok := w.ticket.(hetero.Timed); ok {
		from, to := timed.Ran()
		begin, end = zero+from, zero+to
	} else { // the end is the observation, which may be much later
		end, args["end"] = w.observed, "observed by the host"
	}
	t.device.Span(mul.w.Offload.Matmul.Name, begin, end, args)
	return end
}
