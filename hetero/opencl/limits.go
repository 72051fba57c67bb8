package opencl

import (
	"errors"
	"math"
	"time"

	"github.com/llmrun/llmrun/tiering"
)

// Limits are measured properties of a device, independent of the model.
type Limits struct {
	// ReadGBs is the rate at which a kernel reads memory that is not in a cache.
	ReadGBs float64 `json:"read_gb_s"`
	// ImageGBs is the same rate through an image; 0 if kernels read weights from
	// buffers.
	ImageGBs float64 `json:"image_read_gb_s,omitempty"`
	// LaunchWait is the time of an empty kernel and the wait for it. Launch is the
	// time per kernel of many that share a wait.
	LaunchWait time.Duration `json:"launch_wait_ns"`
	Launch     time.Duration `json:"launch_ns"`
	// Copy is the time to copy a page to the device and back, including waits; 0
	// where memory is shared.
	Copy time.Duration `json:"copy_ns"`
}

const (
	sweepRounds  = 6
	launchRounds = 50
	launchBatch  = 200
	// sweepGroups is how many groups of 256 work items read per compute unit.
	sweepGroups = 16
)

// Measure measures the device's limits. It measures read rates on a buffer of the
// given number of bytes. Each result is the best of several rounds.
func (c *Context) Measure(bytes int) (l Limits, err error) {
	if l.ReadGBs, err = c.sweep(bytes, Buffers); err != nil {
		return l, err
	}
	if most := int64(unitBytes) * min(c.Info.ImageUnits, math.MaxInt32); c.Weights == Images && most > 0 {
		if l.ImageGBs, err = c.sweep(int(min(int64(bytes), most)), Images); err != nil {
			return l, err
		}
	}
	m, err := c.Alloc(tiering.Scratch, 4096)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, m.Free()) }()
	k, err := c.Kernel("probe.cl", "", "probe")
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	if err := k.Set(m); err != nil {
		return l, err
	}
	global, local := []int{64}, []int{64}
	launch := func() error { return c.Launch(k, global, local) }
	if l.LaunchWait, err = best(launchRounds, func() error { return errors.Join(launch(), c.Finish()) }); err != nil {
		return l, err
	}
	batch, err := best(sweepRounds, func() error {
		var err error
		for range launchBatch {
			if err = launch(); err != nil { // earlier launches use the buffer: wait for them
				break // earlier launches use the buffer: wait for them
			}
		}
		return errors.Join(err, c.Finish())
	})
	l.Launch = batch / launchBatch
	if err != nil || c.SharesMemory {
		return l, err
	}
	page := make([]byte, 4096)
	l.Copy, err = best(launchRounds, func() error { return errors.Join(m.Write(0, page), m.Read(0, page)) })
	return l, err
}

// best returns the shortest time of several rounds.
func best(rounds int, f func() error) (least time.Duration, err error) {
	for round := range rounds {
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		if took := time.Since(start); round == 0 || took < least {
			least = took
		}
	}
	return least, nil
}

// sweep measures the read rate in GB/s through a buffer or an image.
func (c *Context) sweep(bytes int, way Source) (rate float64, err error) {
	m, err := c.Alloc(tiering.Scratch, bytes)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, m.Free()) }()
	var source any = m
	if way == Images {
		var t *Image
		if t, err = m.newImage(bytes / unitBytes); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, t.Free()) }()
		source = t
	}
	k, err := c.Kernel("probe.cl", way.options(), "sweep")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	if err := k.Set(source, bytes/unitBytes, m); err != nil {
		return 0, err
	}
	global, local := []int{c.Info.ComputeUnits * sweepGroups * 256}, []int{256}
	least, err := best(sweepRounds, func() error { return errors.Join(c.Launch(k, global, local), c.Finish()) })
	return float64(bytes) / least.Seconds() / 1e9, err
}
