package llmrun

import (
	"sync"

	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/hetero/profiles"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// driverGrowth is what a driver allocates after it was measured: pages of its code that are used
	// only later, and its records of buffers.
	driverGrowth = 4 << 20
	// driverStep rounds the memory of drivers, so that the plans of two processes agree.
	driverStep = 8 << 20
)

// driverMemory is the memory that the driver of a device takes for itself: held while a model runs,
// and peak while it loads its libraries and compiles kernels, before weights are loaded.
type driverMemory struct{ held, peak int64 }

// drivers are the measurements of this process, by device and kernels. Drivers stay loaded, so what a
// later opening allocates comes in addition.
var drivers struct {
	sync.Mutex
	measured map[string]driverMemory
	held     int64 // the sum
}

// measureDriver calls open, which opens a device and makes its driver compile kernels, and returns the
// memory of the driver. It measures the first such call in the process with a key. The directory dir
// remembers the result, so that processes agree.
func (o *Options) measureDriver(key string, open func() error) (driverMemory, error) {
	drivers.Lock()
	defer drivers.Unlock()
	before := tiering.BeginGrowth()
	if err := open(); err != nil {
		return driverMemory{}, err
	}
	m, known := drivers.measured[key]
	if !known {
		devices.ReleaseDriverMemory()
		m.held, m.peak = before.End()
		if drivers.measured == nil {
			drivers.measured = map[string]driverMemory{}
		}
		drivers.measured[key] = m
		drivers.held += m.held
	}
	if drivers.held == 0 {
		return driverMemory{}, nil // the system does not tell
	}
	return o.settleDriver(key, driverMemory{drivers.held, max(m.peak, drivers.held)}), nil
}

// driverMeasured reports whether this process has opened and measured a driver.
func driverMeasured(key string) bool {
	drivers.Lock()
	defer drivers.Unlock()
	_, known := drivers.measured[key]
	return known
}

// The keys of a driver's memory in the file of measurements.
func heldKey(key string) string { return "driver held: " + key }
func peakKey(key string) string { return "driver peak: " + key }

// recallDriver returns what earlier processes have measured of a driver.
func recallDriver(f *profiles.File, key string) (m driverMemory, measured bool) {
	held, measured := f.Memory[heldKey(key)]
	return driverMemory{held, max(held, f.Memory[peakKey(key)])}, measured
}

// settleDriver returns what to reserve for a measured driver.
func (o *Options) settleDriver(key string, m driverMemory) driverMemory {
	f, report := profiles.Load(o.Cache.Dir)
	if report != "" && o.Notify != nil {
		o.Notify(report)
	}
	held, changedHeld := f.Settle(heldKey(key), m.held, driverGrowth, driverStep)
	peak, changedPeak := f.Memory[peakKey(key)], false
	if m.peak > m.held || peak < m.held { // else the process has held more before, and the peak is not known
		peak, changedPeak = f.Settle(peakKey(key), m.peak, driverGrowth, driverStep)
	}
	if changedHeld || changedPeak {
		f.SaveOrReport(o.Cache.Dir, o.Notify)
	}
	return driverMemory{held, peak}
}
