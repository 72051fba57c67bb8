package opencl

import (
	"errors"
	"slices"
	"time"
	"unsafe"
)

// ticket holds a command's event. The device releases the event when it observes that
// this command or a later one in the queue is done. A caller that submits several
// commands can therefore wait for the last one only.
type ticket struct {
	device *Device
	event  uintptr
	state  int32
	done   bool
	err    error
}

// maxTickets is the number of tickets: more than any caller waits for at a time.
const maxTickets = 256

// newTicket reuses the oldest ticket for the command just submitted. If the oldest
// command is not done, newTicket waits for it.
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

// Done queries the event's state, which costs one load in most drivers. A failed
// command is done; Wait returns its error.
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

// poll queries the state and returns the command's error, if it failed.
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

// complete finishes a ticket whose command is done, and all tickets before it, because
// commands run in order.
func (d *Device) complete(last *ticket, err error) {
	n := slices.Index(d.openTickets, last)
	for _, t := range d.openTickets[:n] {
		t.release(t.poll())
	}
	last.release(err)
	d.openTickets = slices.Delete(d.openTickets, 0, n+1)
}

// waitAll waits for all open tickets.
func (d *Device) waitAll() error {
	if len(d.openTickets) == 0 {
		return nil
	}
	return d.openTickets[len(d.openTickets)-1].Wait()
}

func (t *ticket) release(err error) {
	t.done, t.err = true, errors.Join(err, status(clReleaseEvent, t.event))
}
