package opencl

import (
	"errors"
	"slices"
	"time"
	"unsafe"
)

// ticket is a command's event, which it releases as soon as it, or one behind it in
// the queue, is seen done: whoever submits several waits for the last only.
type ticket struct {
	device *Device
	event  uintptr
	state  int32
	done   bool
	err    error
}

// maxTickets is how many tickets there are: more than anybody waits for at a time.
const maxTickets = 256

// newTicket makes the ticket of the command that was just submitted, from one that
// is done: its command came long before.
func (d *Device) newTicket(event uintptr) (*ticket, error) {
	t := &d.tickets[d.issued%maxTickets]
	if d.issued++; t.event != 0 && !t.done {
		if err := t.Wait(); err != nil {
			return nil, errors.Join(err, status(clReleaseEvent, event))
		}
	}
	*t = ticket{device: d, event: event}
	d.open = append(d.open, t)
	return t, nil
}

// Done asks the driver for the event's state, which is a load in most of them. A
// command that failed is done; Wait tells why.
func (t *ticket) Done() bool {
	if t.done {
		return true
	}
	err := t.look()
	if err == nil && t.state > eventComplete {
		return false
	}
	t.device.end(t, err)
	return true
}

// look asks for the state, and returns why the command failed if it did.
func (t *ticket) look() error {
	err := status(clGetEventInfo, t.event, eventStatus, 4, uintptr(unsafe.Pointer(&t.state)), 0)
	if err == nil && t.state < eventComplete {
		err = &Error{"command", t.state}
	}
	return err
}

// Wait blocks until the command is done.
func (t *ticket) Wait() error {
	if !t.done {
		start := time.Now()
		err := status(clWaitForEvents, 1, uintptr(unsafe.Pointer(&t.event)))
		t.device.context.waited(start)
		t.device.end(t, err)
	}
	return t.err
}

// end ends a ticket that is done and, because commands run in order, all before it.
func (d *Device) end(last *ticket, err error) {
	n := slices.Index(d.open, last)
	for _, t := range d.open[:n] {
		t.release(t.look())
	}
	last.release(err)
	d.open = slices.Delete(d.open, 0, n+1)
}

// endAll waits for all tickets that are open.
func (d *Device) endAll() error {
	if len(d.open) == 0 {
		return nil
	}
	return d.open[len(d.open)-1].Wait()
}

func (t *ticket) release(err error) {
	t.done, t.err = true, errors.Join(err, status(clReleaseEvent, t.event))
}
