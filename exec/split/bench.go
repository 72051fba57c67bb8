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

// deviceBench holds the two devices during measurements, and their results.
type deviceBench struct {
	devices  []hetero.Device
	operands *solve.Operands
	profiler *solve.Profiler
	profile  *profiles.File
	keys     profiles.Keys
	dirty    bool // there are new measurements
}

// openBench opens both devices, allocates the operands of the measurements and restores
// stored measurements.
func openBench(matmuls []weights.Matmul, model *exec.Options, o *Options) (l *deviceBench, err error) {
	l = &deviceBench{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if err := l.openDevices(model, o); err != nil {
		return l, err
	}
	var ops []hetero.Op
	for _, p := range matmuls {
		ops = append(ops, opOf(p, model.Chunk))
	}
	if l.operands, err = solve.NewOperands(model.Budget, l.devices, ops); err != nil {
		return l, err
	}
	l.profiler = solve.NewProfiler(l.devices, l.operands.For)
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

// opOf returns a matmul to measure. The output matrix is used with one token.
func opOf(p weights.Matmul, tokens int) hetero.Op {
	if p.LastTokenOnly {
		tokens = 1
	}
	return hetero.Op{Tokens: tokens, Rows: p.Rows, Cols: p.Cols, Type: p.Type, Streamed: true}
}
