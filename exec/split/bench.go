package split

import (
	"errors"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/cpu"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/hetero/profiles"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/tiering"
)

// The devices of a split, in the solver's order. The CPU is the host: it submits work to
// the other device.
const (
	hostDevice  = 0
	otherDevice = 1
)

// repeats is how often each matmul is measured when a model is opened; the shortest
// time counts. The command llmrun profile measures more often.
const repeats = 3

const (
	// ampleRoom is the memory for measuring with weights from outside of caches: they are in memory
	// once and in the layout of each device.
	ampleRoom = 5 * solve.ColdBytes
	// sampleBytes limits the weights of a measured matmul. Times of more rows are predicted from it.
	sampleBytes = 4 << 20
)

// deviceBench holds the two devices during measurements, and their results.
type deviceBench struct {
	devices  []hetero.Device
	budget   *tiering.Budget
	ops      []hetero.Op     // of the model
	operands *solve.Operands // nil until something is measured
	samples  []hetero.Op     // will be measured
	room     func() int64    // Options.Room; nil if there is ample room
	profiler *solve.Profiler
	profile  *profiles.File
	keys     profiles.Keys
	dirty    bool // there are new measurements
}

// openBench opens both devices and restores stored measurements.
func openBench(matmuls []weights.Matmul, model *exec.Options, o *Options) (l *deviceBench, err error) {
	l = &deviceBench{budget: model.Budget, room: o.Room}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if err := l.openDevices(model, o); err != nil {
		return l, err
	}
	for _, p := range matmuls {
		l.ops = append(l.ops, sampleOf(opOf(p, model.Chunk)))
	}
	l.profiler = solve.NewProfiler(l.devices, func(device int, op *hetero.Op, i int) (x, y hetero.View, others int) {
		return l.operands.For(device, op, i) // profiler.Before has allocated them
	})
	l.profiler.Repeats = repeats
	l.keys = profiles.KeysOf([]string{"cpu", o.Device}, l.devices)
	message := ""
	if l.profile, message = profiles.Load(o.Dir); message == "" {
		message = l.profile.Restore(l.profiler, l.keys)
	}
	if message != "" && o.Report != nil {
		o.Report(message)
	}
	return l, nil
}

// allocate allocates the operands of measurements: as few as possible until the device's driver has
// compiled its kernels, and then, if there is ample room beside the driver, memory that exceeds caches.
func (l *deviceBench) allocate() (err error) {
	if l.operands != nil {
		return nil
	}
	if l.room == nil {
		l.operands, err = solve.NewOperands(l.budget, l.devices, l.ops, solve.ColdBytes)
		return err
	}
	if l.operands, err = solve.NewOperands(l.budget, l.devices, l.ops, 0); err != nil {
		return err
	}
	if !l.devices[otherDevice].Capabilities().Static { // of graphs the driver keeps nothing that others use
		if err := l.compile(); err != nil {
			return err
		}
	}
	if l.room() < ampleRoom {
		return nil
	}
	l.room = nil
	return l.operands.Enlarge()
}

// compile makes the device's driver compile the kernels that measurements need.
func (l *deviceBench) compile() error {
	for _, op := range l.samples {
		probe := op
		probe.Rows, probe.Cols = solve.ProbeSide, solve.ProbeSide
		for _, op := range []hetero.Op{op, probe} {
			x, y, _ := l.operands.For(otherDevice, &op, 0)
			k, err := l.devices[otherDevice].Prepare(op)
			if hetero.IsOutOfMemory(err) {
				continue
			}
			if err != nil {
				return err
			}
			if err := errors.Join(compute(k, op.Tokens, x, y), k.Close()); err != nil {
				return err
			}
		}
	}
	return nil
}

// took returns the most that measurements took of the budget, if memory was scarce.
func (l *deviceBench) took() int64 {
	if l.room == nil || l.operands == nil {
		return 0
	}
	return l.budget.Usage().TotalPeak
}

// openDevices opens the CPU and the other device.
func (l *deviceBench) openDevices(model *exec.Options, o *Options) error {
	processor, err := cpu.New(cpu.Options{Threads: model.Threads, Budget: model.Budget})
	if err != nil {
		return err
	}
	l.devices = append(l.devices, processor)
	device, err := devices.All.Open(o.Device, devices.Options{Budget: model.Budget, Memory: o.Memory})
	if err != nil {
		return err
	}
	l.devices = append(l.devices, device)
	return model.W8A8.CheckDevice(o.Device, device.Capabilities())
}

// save saves the measurements, if there are new ones.
func (l *deviceBench) save(dir string, message func(text string)) {
	if l.dirty {
		l.profile.Update(l.profiler, l.keys)
		l.profile.SaveOrReport(dir, message)
	}
}

// addCopy adds the time of a copy.
func (l *deviceBench) addCopy(c profiles.CopyTime) {
	l.profile.AddCopy(l.keys, c)
	l.dirty = true
}

func (l *deviceBench) close() error { return l.operands.CloseAfter(l.devices) }

// sampleOf returns a matmul with as many of its rows as are measured.
func sampleOf(op hetero.Op) hetero.Op {
	if rowBytes, err := op.Type.RowBytes(op.Cols); err == nil && op.Rows*rowBytes > sampleBytes {
		op.Rows = min(op.Rows, max(rowStep, sampleBytes/rowBytes/rowStep*rowStep))
	}
	return op
}

// opOf returns a matmul to measure. The output matrix is used with one token.
func opOf(p weights.Matmul, tokens int) hetero.Op {
	if p.LastTokenOnly {
		tokens = 1
	}
	return hetero.Op{Tokens: tokens, Rows: p.Rows, Cols: p.Cols, Type: p.Type, Streamed: true}
}
