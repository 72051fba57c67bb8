package exec

import (
	"errors"
	"time"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// offloadPass is what of a step's products is under way on another device.
type offloadPass struct {
	*offloadDevice
	buffer *hetero.Buffer // all of the pass's memory: where products read and write
	work   []offloadedWork
	begun  time.Duration // when the step began, by the device's clock
	trace  offloadTrace
}

// offloadedWork is rows of a job that were submitted.
type offloadedWork struct {
	job, part       int
	ticket          hetero.Ticket
	submitted, seen time.Duration // and seen to be done, by the clock of who traces
}

// attachTo makes the frame of a pass the device's, if there is a device.
func (a *offloadPass) attachTo(device *offloadDevice, frame *tiering.Frame) (err error) {
	if device == nil {
		return nil
	}
	a.offloadDevice, a.trace = device, newOffloadTrace(device.Trace, device.Name)
	a.buffer, err = device.attach(frame)
	return err
}

// startOffload submits the device's rows of all products of the list.
func (q *matmulQueue) startOffload() {
	a := &q.offload
	if a.offloadDevice == nil {
		return
	}
	a.begun, a.trace.begun = a.Device.Clock().Now(), a.trace.recorder.Now()
	var flushed []float32
	for i := range q.matmuls {
		if j := &q.matmuls[i]; j.w.Offload != nil && j.residentRows() != j.w.Rows && q.err == nil {
			q.flushRowOps() // they may still have to write the matmul's input
			q.err = a.submitRows(i, j, !same(flushed, j.x))
			flushed = j.x
		}
	}
	a.trace.submitted = a.trace.recorder.Now()
}

// submitRows submits the device's rows of one matmul, whose input the device has to see first
// if flush is true.
func (a *offloadPass) submitRows(i int, j *matmul, flush bool) error {
	x := a.buffer.View(j.x, j.w.Cols)
	if flush {
		if err := a.Device.FlushRows(x, j.n, j.w.Cols); err != nil {
			return err
		}
	}
	return a.start(i, j, x)
}

// start submits the device's rows of one product.
func (a *offloadPass) start(job int, j *matmul, x hetero.View) error {
	y := a.buffer.View(j.y, j.w.Rows)
	for i := range j.w.Offload.Pieces {
		part := &j.w.Offload.Pieces[i]
		if part.Kernel == nil || part.First < j.residentRows() {
			continue
		}
		t, err := a.submit(part.Kernel, j.n, x, y.At(0, part.First))
		if err != nil {
			return err
		}
		a.work = append(a.work, offloadedWork{job: job, part: i, ticket: t, submitted: a.trace.recorder.Now()})
	}
	return nil
}

// finishOffload waits for the device, also after an error, and takes its rows.
func (q *matmulQueue) finishOffload() {
	a := &q.offload
	if a.offloadDevice == nil {
		return
	}
	own, ownTraced := a.Device.Clock().Now(), a.trace.recorder.Now()
	q.err = errors.Join(q.err, a.await(q.matmuls))
	a.trace.record(a.Device.Clock(), q.matmuls, a.work, ownTraced)
	if len(a.work) > 0 && !a.caps.SharesMemory {
		q.err = errors.Join(q.err, a.Device.Fetch(a.buffer))
	}
	for _, w := range a.work {
		q.matmuls[w.job].addBias(w.part)
	}
	a.record(q.matmuls, own)
	a.clear()
}

// await waits for the rows that were submitted.
func (a *offloadPass) await(matmuls []matmul) (err error) {
	for i := range a.work {
		w := &a.work[i]
		j := &matmuls[w.job]
		err = errors.Join(err, hetero.Await(a.Device.Clock(), w.ticket, a.begun+a.predicted(j.w.Offload, j.n), a.Grain))
		w.seen = a.trace.recorder.Now()
	}
	return err
}

// cancel waits for what is under way, which is nothing but after a fault, and forgets it.
func (a *offloadPass) cancel() {
	for _, w := range a.work {
		_ = w.ticket.Wait() // nobody uses it
	}
	a.clear()
}

// clear empties the list of what was submitted.
func (a *offloadPass) clear() {
	clear(a.work)
	a.work = a.work[:0]
}

// addBias adds what the device does not know to its rows.
func (j *matmul) addBias(part int) {
	if j.w.Bias == nil {
		return
	}
	rows := &j.w.Offload.Pieces[part]
	for row := range j.n {
		quant.Add(j.y[row*j.w.Rows+rows.First:][:rows.Rows], j.w.Bias[rows.First:][:rows.Rows])
	}
}
