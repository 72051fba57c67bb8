package exec

import (
	"errors"
	"time"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/tiering"
)

// offloadPass is the work of the current step on another device.
type offloadPass struct {
	*offloadDevice
	buffer *hetero.Buffer // the pass's frame, where matmuls read and write
	work   []offloadedWork
	begun  time.Duration // start of the step by the device's clock
	trace  offloadTrace
}

// offloadedWork is a range of a matmul's rows that was submitted to the device.
type offloadedWork struct {
	matmul, part        int // index of the matmul in the queue, and of its range of rows
	ticket              hetero.Ticket
	submitted, observed time.Duration // submission and observed completion, by the trace's clock
}

// attachTo attaches the frame of a pass to the device, if there is one.
func (a *offloadPass) attachTo(device *offloadDevice, frame *tiering.Frame) (err error) {
	if device == nil {
		return nil
	}
	a.offloadDevice, a.trace = device, newOffloadTrace(device.Trace, device.Name)
	a.buffer, err = device.attach(frame)
	return err
}

// startOffload submits the offloaded rows of all queued matmuls.
func (q *matmulQueue) startOffload() {
	a := &q.offload
	if a.offloadDevice == nil {
		return
	}
	a.begun, a.trace.begun = a.Device.Clock().Now(), a.trace.recorder.Now()
	var flushed []float32
	for i := range q.matmuls {
		if mul := &q.matmuls[i]; mul.w.Offload != nil && mul.cpuRows() != mul.w.Rows && q.err == nil {
			q.flushRowOps() // they may write the matmul's input
			q.err = a.named(a.submitRows(i, mul, !sameSlice(flushed, mul.x)))
			flushed = mul.x
		}
	}
	a.trace.submitted = a.trace.recorder.Now()
}

// submitRows submits the offloaded rows of one matmul. If flush is true, it first makes the
// input visible to the device.
func (a *offloadPass) submitRows(i int, mul *matmul, flush bool) error {
	x := a.buffer.View(mul.x, mul.w.Cols)
	if flush {
		if err := a.Device.FlushRows(x, mul.n, mul.w.Cols); err != nil {
			return err
		}
	}
	return a.start(i, mul, x)
}

// start submits the offloaded rows of one matmul.
func (a *offloadPass) start(index int, mul *matmul, x hetero.View) error {
	y := a.buffer.View(mul.y, mul.w.Rows)
	for i := range mul.w.Offload.Ranges {
		part := &mul.w.Offload.Ranges[i]
		if part.Kernel == nil || part.First < mul.cpuRows() {
			continue
		}
		t, err := a.submit(part.Kernel, mul.n, x, y.At(0, part.First))
		if err != nil {
			return err
		}
		a.work = append(a.work, offloadedWork{matmul: index, part: i, ticket: t, submitted: a.trace.recorder.Now()})
	}
	return nil
}

// finishOffload waits for the device, also after an error, and fetches its results.
func (q *matmulQueue) finishOffload() {
	a := &q.offload
	if a.offloadDevice == nil {
		return
	}
	hostDone, hostDoneTraced := a.Device.Clock().Now(), a.trace.recorder.Now()
	q.err = errors.Join(q.err, a.named(a.await(q.matmuls)))
	a.trace.record(a.Device.Clock(), q.matmuls, a.work, hostDoneTraced)
	if len(a.work) > 0 && !a.caps.SharesMemory {
		q.err = errors.Join(q.err, a.named(a.Device.Fetch(a.buffer)))
	}
	for _, w := range a.work {
		q.matmuls[w.matmul].addBias(w.part)
	}
	a.record(q.matmuls, hostDone)
	a.clear()
}

// await waits for the submitted rows.
func (a *offloadPass) await(matmuls []matmul) (err error) {
	for i := range a.work {
		w := &a.work[i]
		mul := &matmuls[w.matmul]
		err = errors.Join(err, hetero.Await(a.Device.Clock(), w.ticket, a.begun+a.predicted(mul.w.Offload, mul.n), a.Grain))
		w.observed = a.trace.recorder.Now()
	}
	return err
}

// cancel waits for submitted work, which exists only after a fault, and drops it.
func (a *offloadPass) cancel() {
	for _, w := range a.work {
		_ = w.ticket.Wait() // the result is not used
	}
	a.clear()
}

// clear empties the list of submitted work.
func (a *offloadPass) clear() {
	clear(a.work)
	a.work = a.work[:0]
}

// addBias applies scale and bias to offloaded rows, because device kernels have neither.
func (mul *matmul) addBias(part int) {
	rows := &mul.w.Offload.Ranges[part]
	for row := range mul.n {
		mul.scaleAndBias(mul.y[row*mul.w.Rows+rows.First:][:rows.Rows], rows.First)
	}
}
