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
	d.openTickets = append(d.openTickets, t)
	return t, nil
}

// Done asks the driver for the event's state, which is a load in most of them. A
// command that failed is done; Wait tells why.
func (t *ticket) Done() bool {
	if t.done {
		return true
	}
	err := t.poll()
	if err == nil && t.state > eventComplete {
		return false
	}
	t.device.complete(t, err)
	return true
}

// poll asks for the state, and returns why the command failed if it did.
func (t *ticket) poll() error {
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
		t.device.complete(t, err)
	}
	return t.err
}

// complete ends a ticket that is done and, because commands run in order, all before it.
func (d *Device) complete(last *ticket, err error) {
	n := slices.Index(d.openTickets, last)
	for _, t := range d.openTickets[:n] {
		t.release(t.poll())
	}
	last.release(err)
	d.openTickets = slices.Delete(d.openTickets, 0, n+1)
}

// waitAll waits for all tickets that are open.
func (d *Device) waitAll() error {
	if len(d.openTickets) == 0 {
		return nil
	}
	return d.openTickets[len(d.openTickets)-1].Wait()
}

func (t *ticket) release(err error) {
	t.done, t.err = true, errors.Join(err, status(clReleaseEvent, t.event))
}
