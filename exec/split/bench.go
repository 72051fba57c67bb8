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

// The devices of a division, as a solver has them: the processor is the host of the
// other one.
const (
	hostDevice  = 0
	otherDevice = 1
)

// repeats is how often what is not known is measured when a model is opened; the
// shortest time counts. llmrun profile takes more time for it.
const repeats = 3

// deviceBench is the two devices while they are measured, and what is known of them.
type deviceBench struct {
	devices  []hetero.Device
	operands *solve.Operands
	profiler *solve.Profiler
	profile  *profiles.File
	keys     profiles.Keys
	dirty    bool // something was measured
}

func openBench(products []weights.Product, model *exec.Options, o *Options) (l *deviceBench, err error) {
	l = &deviceBench{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	processor, err := cpu.New(cpu.Options{Threads: model.Threads, Budget: model.Budget})
	if err != nil {
		return l, err
	}
	l.devices = append(l.devices, processor)
	device, err := devices.All.Open(o.Device, devices.Options{Budget: model.Budget, Memory: o.Memory})
	if err != nil {
		return l, err
	}
	l.devices = append(l.devices, device)
	if err := model.W8A8.CheckDevice(o.Device, device.Capabilities()); err != nil {
		return l, err
	}
	var ops []hetero.Op
	for _, p := range products {
		ops = append(ops, opOf(p, model.Chunk))
	}
	if l.operands, err = solve.NewOperands(model.Budget, l.devices, ops); err != nil {
		return l, err
	}
	l.profiler = solve.NewProfiler(l.devices, l.operands.For)
	l.profiler.Repeats = repeats
	l.keys = profiles.KeysOf([]string{"cpu", o.Device}, l.devices)
	notice := ""
	if l.profile, notice = profiles.Load(o.Dir); notice == "" {
		notice = l.profile.Restore(l.profiler, l.keys)
	}
	if notice != "" && o.Report != nil {
		o.Report(notice)
	}
	return l, nil
}

// save keeps what was measured, if anything was.
func (l *deviceBench) save(dir string, notice func(text string)) {
	if l.dirty {
		l.profile.Update(l.profiler, l.keys)
		l.profile.SaveOrReport(dir, notice)
	}
}

// addCopy takes over what a copy took.
func (l *deviceBench) addCopy(c profiles.CopyTime) {
	l.profile.AddCopy(l.keys, c)
	l.dirty = true
}

func (l *deviceBench) close() error { return l.operands.CloseAfter(l.devices) }

// opOf returns a product as it is measured. An output matrix has few tokens.
func opOf(p weights.Product, tokens int) hetero.Op {
	if p.OneToken {
		tokens = 1
	}
	return hetero.Op{Tokens: tokens, Rows: p.Rows, Cols: p.Cols, Type: p.Type, Streamed: true}
}
