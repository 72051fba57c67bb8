package papers

import (
	"time"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/lab/sim"
)

// Method is a way to use the devices.
type Method uint8

// The methods that HeteroLLM compares.
const (
	GPUOnly Method = iota // PPL-OpenCL
	Layer                 // whole operations on the faster device
	Tensor                // operations split
	Padding               // NPU only, length padded to a standard one
	Pipe                  // NPU only, several standard lengths in sequence
	Online                // NPU only, with graphs built for this length during the run
)

// String returns the name in tables.
func (m Method) String() string {
	return [...]string{"GPU only", "layer-level", "tensor-level", "padding", "pipe", "online"}[m]
}

// MarshalText makes JSON use the name too.
func (m Method) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// allow reports whether a method may choose a split.
func (m Method) allow(s *solve.Split) bool {
	first := s.Pieces[0]
	single := len(s.Pieces) == 1
	if m == Tensor || single && first.Device == 0 && (m == GPUOnly || m == Layer || first.Tokens == 1) {
		return true
	}
	if s.Cut != solve.None || first.Device == 0 || first.Tokens == 1 {
		return false
	}
	return m == Pipe || single && (m == Layer || m == Padding || m == Online)
}

// Run configures a simulated run of a model.
type Run struct {
	SoC    string
	Model  Model
	Method Method
	Tokens int
	Past   int
	// Slow runs the splits without the fast synchronization that they were planned for: with copies
	// and the driver's waits.
	Slow        bool
	GPUFraction float64 // fraction of the GPU that other programs leave, as in sim.Options
	Quota       float64 // fraction of the time that a split may use the GPU, as in solve.Solver
	Predict     bool    // plan with predicted times instead of measured ones
}

// Result holds the times of a run.
type Result struct {
	Time      time.Duration // by the virtual clock
	Prepare   time.Duration // part of Time for building graphs during the run
	Predicted time.Duration // sum over the matmuls, predicted by the solver
	Matmuls   time.Duration // the same sum, measured
	Splits    map[string]solve.Split
}

// pass is the state of a run.
type pass struct {
	*Run
	soc     *sim.SoC
	solver  *solve.Solver
	exec    *solve.Executor
	pending []solve.Pending
	result  Result
}

// Lab caches profiles and solvers for later runs.
type Lab struct {
	solvers map[solverKey]*solve.Solver
	costs   map[costsKey]solve.Costs
}

type costsKey struct {
	soc         string
	gpuFraction float64
	predict     bool
}

type solverKey struct {
	costsKey
	method Method
	length int // that Online builds graphs for
	quota  float64
}

// Profile returns the costs of a chip, measured by execution on the simulator.
func (l *Lab) Profile(soc string, fraction float64) (*solve.Profiler, error) {
	key := costsKey{soc, fraction, false}
	if c, known := l.costs[key]; known {
		return c.(*solve.Profiler), nil
	}
	chip, err := sim.New(soc, sim.Options{TimeOnly: true, GPUFraction: fraction})
	if err != nil {
		return nil, err
	}
	p := solve.NewProfiler([]hetero.Device{chip.GPU, chip.NPU}, nil)
	l.keep(key, p)
	return p, nil
}

func (l *Lab) keep(key costsKey, c solve.Costs) {
	if l.costs == nil {
		l.costs, l.solvers = map[costsKey]solve.Costs{}, map[solverKey]*solve.Solver{}
	}
	l.costs[key] = c
}

// solver returns the solver for a run. Its costs always assume fast synchronization.
func (l *Lab) solver(r *Run) (*solve.Solver, error) {
	profiler, err := l.Profile(r.SoC, r.GPUFraction)
	if err != nil {
		return nil, err
	}
	key := solverKey{costsKey{r.SoC, r.GPUFraction, r.Predict}, r.Method, 0, r.Quota}
	steps := solve.DefaultSteps
	if r.Method == Online {
		key.length, steps.Lengths = r.Tokens, []int{r.Tokens}
	}
	if s, known := l.solvers[key]; known {
		return s, nil
	}
	costs := solve.Costs(profiler)
	if r.Predict {
		costs = solve.NewPredictor(profiler, Samples())
	}
	chip, err := sim.New(r.SoC, sim.Options{})
	if err != nil {
		return nil, err
	}
	s := &solve.Solver{Costs: costs, Steps: steps, Static: true, Sync: chip.Sync(), Allow: r.Method.allow, Quota: r.Quota}
	l.solvers[key] = s
	return s, nil
}

// Samples returns the matmuls that the prediction mode measures: lengths and sizes in powers of
// two, in both orders.
func Samples() (list []hetero.Op) {
	for _, tokens := range append([]int{1}, solve.DefaultSteps.Lengths...) {
		for rows := 256; rows <= 16384; rows *= 2 {
			for cols := 1024; cols <= 16384; cols *= 2 {
				list = append(list,
					hetero.Op{Tokens: tokens, Rows: rows, Cols: cols, Streamed: true},
					hetero.Op{Tokens: tokens, Rows: rows, Cols: cols})
			}
		}
	}
	return list
}

// predictionErrors fills in the errors of predictions for the lengths and halves of a model's
// matmuls.
func (l *Lab) predictionErrors(m Model, p *Prediction) error {
	solver, err := l.solver(&Run{SoC: phone, Model: m, Method: Tensor, Predict: true})
	if err != nil {
		return err
	}
	var ops []hetero.Op
	for _, matmul := range m.Matmuls() {
		for _, tokens := range solve.DefaultSteps.Lengths {
			whole := matmul.Op(tokens)
			half := whole
			half.Rows = max(256, half.Rows/2/256*256)
			ops = append(ops, whole, half)
		}
	}
	q := solver.Costs.(*solve.Predictor)
	p.GPU, p.GPUMax = q.Error(0, ops)
	p.NPU, p.NPUMax = q.Error(1, ops)
	return q.Measured.Err
}

// Do runs a model once.
func (l *Lab) Do(r Run) (Result, error) {
	soc, err := sim.New(r.SoC, sim.Options{TimeOnly: true, SeparateMemory: r.Slow, GPUFraction: r.GPUFraction})
	if err != nil {
		return Result{}, err
	}
	solver, err := l.solver(&r)
	if err != nil {
		return Result{}, err
	}
	p := &pass{
		Run: &r, soc: soc, solver: solver,
		exec:   &solve.Executor{Devices: [2]hetero.Device{soc.GPU, soc.NPU}, Costs: solver.Costs, Grain: soc.Grain(), Fast: !r.Slow},
		result: Result{Splits: map[string]solve.Split{}},
	}
	if err := p.prepare(); err != nil {
		return Result{}, err
	}
	begin := soc.Elapsed()
	for range r.Model.Layers {
		if err := p.layer(); err != nil {
			return Result{}, err
		}
	}
	if err := p.head(); err != nil {
		return Result{}, err
	}
	if err := p.awaitAll(); err != nil {
		return Result{}, err
	}
	p.result.Time = soc.Elapsed() - begin + p.result.Prepare
	return p.result, p.exec.Close()
}

// prepare prepares all kernels. Layers share them because only their weights differ, not their
// times. Only Online counts the time, once per shape.
func (p *pass) prepare() error {
	shapes := map[[2]int]time.Duration{}
	for _, matmul := range append(p.Model.Matmuls(), p.headMatmul()) {
		tokens := p.Tokens
		if matmul.Name == "head" {
			tokens = 1
		}
		op := matmul.Op(tokens)
		split := p.solver.Solve(op)
		p.result.Splits[matmul.Name] = split
		begin := p.soc.Elapsed()
		if err := p.exec.Prepare(matmul.Name, op, &split); err != nil {
			return err
		}
		if matmul.Name != "head" {
			shapes[[2]int{matmul.Rows, matmul.Cols}] = p.soc.Elapsed() - begin
		}
	}
	if p.Method == Online {
		for _, took := range shapes {
			p.result.Prepare += took
		}
	}
	return nil
}

func (p *pass) headMatmul() Matmul { return Matmul{"head", p.Model.Vocab, p.Model.Dim} }

// layer runs one layer. The GPU computes everything but matmuls.
func (p *pass) layer() error {
	m, tokens := &p.Model, float64(p.Tokens)
	width := float64(m.Dim)
	norm := step{bytes: 3 * tokens * width * 2}
	kv := float64(p.Past+p.Tokens) * float64(m.KVHeads*m.HeadAt) * 2 * 2
	heads := float64(m.Heads * m.HeadAt)
	attention := step{flops: 4 * tokens * (float64(p.Past) + tokens/2) * heads, bytes: kv + 4*tokens*heads*2}
	activation := step{bytes: 3 * tokens * float64(m.Hidden) * 2}
	matmuls := m.Matmuls()
	for _, s := range []step{
		norm,
		{matmuls: matmuls[:3]},
		attention,
		{matmuls: matmuls[3:4]},
		norm,
		{matmuls: matmuls[4:6]},
		activation,
		{matmuls: matmuls[6:]},
	} {
		if err := p.step(s, p.Tokens); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) head() error {
	if err := p.step(step{bytes: 3 * float64(p.Model.Dim) * 2}, 1); err != nil {
		return err
	}
	return p.step(step{matmuls: []Matmul{p.headMatmul()}}, 1)
}

// step is a group of matmuls with one input, or other work of the GPU.
type step struct {
	matmuls      []Matmul
	flops, bytes float64
}

func (p *pass) step(s step, tokens int) error {
	if len(s.matmuls) == 0 {
		if err := p.exec.Before(0, nil, p.pending); err != nil {
			return err
		}
		t := p.soc.GPU.Charge(s.flops, s.bytes)
		p.pending = []solve.Pending{{Device: 0, Ticket: t, At: p.soc.Elapsed()}}
		return nil
	}
	input, output := p.pending, []solve.Pending(nil)
	for _, matmul := range s.matmuls {
		split := p.result.Splits[matmul.Name]
		begin := p.soc.Elapsed()
		done, err := p.exec.Submit(matmul.Name, matmul.Op(tokens), &split, hetero.View{}, hetero.View{}, input)
		if err != nil {
			return err
		}
		// As in HeteroLLM, a split operation ends before the next begins.
		if other := notOnGPU(done); len(other) > 0 {
			if err := p.exec.Before(0, nil, other); err != nil {
				return err
			}
		}
		p.result.Predicted += split.Time
		p.result.Matmuls += p.soc.Elapsed() - begin
		output = append(output, onGPU(done)...)
	}
	p.pending = output
	return nil
}

func notOnGPU(list []solve.Pending) (other []solve.Pending) {
	for _, w := range list {
		if w.Device != 0 {
			other = append(other, w)
		}
	}
	return other
}

func onGPU(list []solve.Pending) (own []solve.Pending) {
	for _, w := range list {
		if w.Device == 0 {
			own = append(own, w)
		}
	}
	return own
}

// awaitAll waits for all pending work.
func (p *pass) awaitAll() error {
	for _, w := range p.pending {
		if err := p.exec.Await(w); err != nil {
			return err
		}
	}
	return nil
}
