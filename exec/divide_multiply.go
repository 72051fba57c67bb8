package exec

import (
	"errors"
	"time"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// awayPass is what of a step's products is under way on another device.
type awayPass struct {
	*away
	buffer *hetero.Buffer // all of the pass's memory: where products read and write
	work   []awayWork
	begun  time.Duration // when the step began, by the device's clock
	trace  awayTrace
}

// awayWork is rows of a job that were submitted.
type awayWork struct {
	job, part       int
	ticket          hetero.Ticket
	submitted, seen time.Duration // and seen to be done, by the clock of who traces
}

// attachTo makes the frame of a pass the device's, if there is a device.
func (a *awayPass) attachTo(device *away, frame *tiering.Frame) (err error) {
	if device == nil {
		return nil
	}
	a.away, a.trace = device, newAwayTrace(device.Trace, device.Name)
	a.buffer, err = device.attach(frame)
	return err
}

// startAway submits the device's rows of all products of the list.
func (q *matmulQueue) startAway() {
	a := &q.away
	if a.away == nil {
		return
	}
	a.begun, a.trace.begun = a.Device.Clock().Now(), a.trace.recorder.Now()
	var flushed []float32
	for i := range q.jobs {
		j := &q.jobs[i]
		if j.w.Offload == nil || j.here() == j.w.Rows || q.err != nil {
			continue
		}
		q.settleRows() // what it multiplies may have been left for later
		x := a.buffer.View(j.x, j.w.Cols)
		if !same(flushed, j.x) {
			flushed = j.x
			q.err = errors.Join(q.err, a.Device.FlushRows(x, j.n, j.w.Cols))
		}
		q.err = errors.Join(q.err, a.start(i, j, x))
	}
	a.trace.submitted = a.trace.recorder.Now()
}

// start submits the device's rows of one product.
func (a *awayPass) start(job int, j *job, x hetero.View) error {
	y := a.buffer.View(j.y, j.w.Rows)
	for i := range j.w.Offload.Pieces {
		part := &j.w.Offload.Pieces[i]
		if part.Kernel == nil || part.First < j.here() {
			continue
		}
		t, err := a.submit(part.Kernel, j.n, x, y.At(0, part.First))
		if err != nil {
			return err
		}
		a.work = append(a.work, awayWork{job: job, part: i, ticket: t, submitted: a.trace.recorder.Now()})
	}
	return nil
}

// finishAway waits for the device, also after an error, and takes its rows.
func (q *matmulQueue) finishAway() {
	a := &q.away
	if a.away == nil {
		return
	}
	own, ownTraced := a.Device.Clock().Now(), a.trace.recorder.Now()
	for i := range a.work {
		w := &a.work[i]
		j := &q.jobs[w.job]
		q.err = errors.Join(q.err, hetero.Await(a.Device.Clock(), w.ticket, a.begun+a.predicted(j.w.Offload, j.n), a.Grain))
		w.seen = a.trace.recorder.Now()
	}
	a.trace.note(a.Device.Clock(), q.jobs, a.work, ownTraced)
	if len(a.work) > 0 && !a.caps.SharesMemory {
		q.err = errors.Join(q.err, a.Device.Fetch(a.buffer))
	}
	for _, w := range a.work {
		q.jobs[w.job].addBias(w.part)
	}
	a.note(q.jobs, own)
	a.forget()
}

// drop waits for what is under way, which is nothing but after a fault, and forgets it.
func (a *awayPass) drop() {
	for _, w := range a.work {
		_ = w.ticket.Wait() // nobody uses it
	}
	a.forget()
}

// forget empties the list of what was submitted.
func (a *awayPass) forget() {
	clear(a.work)
	a.work = a.work[:0]
}

// addBias adds what the device does not know to its rows.
func (j *job) addBias(part int) {
	if j.w.Bias == nil {
		return
	}
	rows := &j.w.Offload.Pieces[part]
	for row := range j.n {
		quant.Add(j.y[row*j.w.Rows+rows.First:][:rows.Rows], j.w.Bias[rows.First:][:rows.Rows])
	}
}
