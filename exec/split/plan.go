package split

import (
	"fmt"
	"time"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/profiles"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// minGain is the smallest predicted speed-up over the CPU alone, and of a split
	// over each of the two alone: predictions favour devices that share memory,
	// power and cores. Trials need the same gain, because less can be noise.
	minGain = 1.05
	// minSaving is the smallest saving of time. On a busy machine, a wait for the
	// other device may take this much longer.
	minSaving = 20 * time.Microsecond
	// minPrompt is the minimum number of tokens to which a split for prompts applies.
	minPrompt = 32
	// splitSteps is about how many row splits are tried per matmul, at multiples of
	// rowStep.
	splitSteps = 32
	rowStep    = 64
	// startMeasurements are the profiler's own measurements: start latencies, and
	// the slowdown of two devices, alone and together.
	startMeasurements = 4
)

// planner decides how matmuls are split.
type planner struct {
	bench    *deviceBench
	chunk    int
	quota    float64
	alone    bool
	costs    solve.Costs
	types    map[quant.Type]bool    // supported by the device
	growth   map[quant.Type]float64 // size of the device's layout relative to the file's
	splits   map[weights.Matmul]weights.RowSplit
	hostOnly map[weights.Matmul]weights.RowSplit // splits with all rows on the CPU
	losses   losses
	capacity capacity // nil: the device has memory for everything
	// kernelMemory is what the kernels of a matmul take in the process besides their weights.
	kernelMemory map[weights.Matmul]int64
	// measured is the number of measurements if the profile is empty.
	measured int
}

// splitOf returns the planned split without losses. Matmuls that were not planned,
// or that the device has no memory for, stay on the CPU.
func (p *planner) splitOf(matmul weights.Matmul) weights.RowSplit {
	if n, short := p.capacity[matmulKey(matmul)]; short && n == 0 {
		return p.hostOnly[matmulKey(matmul)]
	}
	if s, known := p.splits[matmulKey(matmul)]; known {
		return p.losses.apply(s, p.hostOnly[matmulKey(matmul)], matmul.LastTokenOnly)
	}
	return weights.RowSplit{Single: matmul.Rows, Batch: matmul.Rows}
}

// matmulKey returns a matmul without its count.
func matmulKey(p weights.Matmul) weights.Matmul {
	p.Count = 0
	return p
}

// static reports whether the device computes only graphs of a fixed number of tokens.
func (p *planner) static() bool { return p.bench.devices[otherDevice].Capabilities().Static }

// probeTypes finds the weight types that the device supports. Others are not split.
func (p *planner) probeTypes(matmuls []weights.Matmul) error {
	p.types, p.growth = map[quant.Type]bool{}, map[quant.Type]float64{}
	var refused error
	for _, matmul := range matmuls {
		if _, known := p.types[matmul.Type]; known {
			continue
		}
		growth, err := p.probe(matmul)
		if p.types[matmul.Type] = err == nil; err != nil {
			refused = fmt.Errorf("%v: %w", matmul.Type, err)
			continue
		}
		p.growth[matmul.Type] = growth
	}
	for _, matmul := range matmuls {
		if p.types[matmul.Type] {
			p.bench.profiler.Weights = matmul.Type
			return nil
		}
	}
	return fmt.Errorf("%w: it supports none of the model's weight types: %w", arch.ErrUnsupported, refused)
}

// probe prepares a few rows of a matmul, and returns the size of the device's layout relative to the
// file's.
func (p *planner) probe(matmul weights.Matmul) (growth float64, err error) {
	op := opOf(matmul, p.chunk)
	op.Rows = min(op.Rows, rowStep)
	rowBytes, err := op.Type.RowBytes(op.Cols)
	if err != nil {
		return 0, err
	}
	frame, err := tiering.Alloc(p.bench.budget, tiering.Scratch, op.Rows*rowBytes)
	if err != nil {
		return 0, err
	}
	defer frame.Free()
	op.Weights = frame.Bytes()[:op.Rows*rowBytes]
	k, err := p.bench.devices[otherDevice].Prepare(op)
	if err != nil {
		return 0, err
	}
	return max(1, float64(k.Bytes())/float64(len(op.Weights))), k.Close()
}

// planAll plans every matmul.
func (p *planner) planAll(matmuls []weights.Matmul) error {
	var samples []hetero.Op
	for _, matmul := range matmuls {
		if p.types[matmul.Type] {
			samples = append(samples, p.samples(matmul)...)
		}
	}
	p.bench.samples = samples
	p.measured = len(samples)*len(p.bench.devices) + startMeasurements
	p.costs = hostCosts{solve.NewPredictor(p.bench.profiler, samples)}
	for _, matmul := range matmuls {
		if !p.types[matmul.Type] {
			continue
		}
		split, err := p.plan(matmul)
		if err != nil {
			return err
		}
		p.splits[matmulKey(matmul)], p.hostOnly[matmulKey(matmul)] = split, p.hostSplit(matmul)
	}
	return p.bench.profiler.Err
}

// hostSplit returns the split of a matmul with all rows on the CPU.
func (p *planner) hostSplit(matmul weights.Matmul) weights.RowSplit {
	split := weights.RowSplit{Single: matmul.Rows, Batch: matmul.Rows}
	if !p.static() { // for static devices one token is not measured
		split.SingleTime = p.predict(opOf(matmul, 1), matmul.Rows)
		split.BatchTime = split.SingleTime
	}
	if !matmul.LastTokenOnly {
		split.BatchTime = p.predict(opOf(matmul, p.chunk), matmul.Rows)
	}
	return split
}

// samples returns the measurements that predictions for a matmul are based on.
func (p *planner) samples(matmul weights.Matmul) (list []hetero.Op) {
	lengths := []int{1, minPrompt, p.chunk}
	switch {
	case matmul.LastTokenOnly && p.static():
		return nil
	case matmul.LastTokenOnly:
		lengths = lengths[:1]
	case p.static():
		lengths = lengths[2:]
	}
	for _, tokens := range lengths {
		for _, rows := range []int{matmul.Rows, matmul.Rows / 4} {
			op := opOf(matmul, tokens)
			op.Rows = max(rowStep, rows/rowStep*rowStep)
			list = append(list, sampleOf(op))
		}
	}
	return list
}

// plan plans a matmul: for one token, for a chunk, and the number of tokens from
// which the chunk's split applies.
func (p *planner) plan(matmul weights.Matmul) (weights.RowSplit, error) {
	split := weights.RowSplit{Single: matmul.Rows, Batch: matmul.Rows}
	var err error
	if !p.static() {
		if split.Single, split.SingleTime, err = p.bestSplit(opOf(matmul, 1)); err != nil {
			return split, err
		}
		split.Batch, split.BatchTime = split.Single, split.SingleTime
	}
	if matmul.LastTokenOnly {
		return split, nil
	}
	if split.Batch, split.BatchTime, err = p.bestSplit(opOf(matmul, p.chunk)); err != nil {
		return split, err
	}
	for split.MinBatch = min(minPrompt, p.chunk); split.MinBatch < p.chunk; split.MinBatch *= 2 {
		op := opOf(matmul, split.MinBatch)
		if p.predict(op, split.Batch) <= p.predict(op, split.Single) {
			break
		}
	}
	split.MinBatch = min(split.MinBatch, p.chunk)
	return split, nil
}

// bestSplit returns the number of rows on the CPU that gives the shortest time, and
// that time.
func (p *planner) bestSplit(op hetero.Op) (rows int, took time.Duration, err error) {
	if p.alone {
		return 0, p.predict(op, 0), p.bench.profiler.Err
	}
	rows, took = op.Rows, p.predict(op, op.Rows)
	if all := p.predict(op, 0); p.quota == 0 && paysOff(all, took) {
		rows, took = 0, all
	}
	alone := took
	step := max(rowStep, op.Rows/splitSteps/rowStep*rowStep)
	for hostRows := step; hostRows < op.Rows; hostRows += step {
		t := p.predict(op, hostRows)
		if busy := p.costs.Time(otherDevice, piece(op, otherDevice, hostRows).Op(op)); p.quota > 0 && busy.Seconds() > p.quota*t.Seconds() {
			continue
		}
		if t < took && paysOff(t, alone) {
			rows, took = hostRows, t
		}
	}
	return rows, took, p.bench.profiler.Err
}

// paysOff reports whether a time is shorter than another by more than the errors of
// predictions and measurements.
func paysOff(t, than time.Duration) bool {
	return minGain*t.Seconds() <= than.Seconds() && t+minSaving <= than
}

// predict returns the time of a matmul with the first hostRows rows on the CPU.
func (p *planner) predict(op hetero.Op, hostRows int) time.Duration {
	split := solve.Split{Streamed: op.Streamed}
	if hostRows > 0 {
		split.Pieces = append(split.Pieces, piece(op, hostDevice, hostRows))
	}
	solver := solve.Solver{Costs: p.costs, Static: p.static()}
	if hostRows < op.Rows {
		theirs := piece(op, otherDevice, hostRows)
		if p.static() {
			theirs.Padded = p.chunk
		}
		split.Pieces = append(split.Pieces, theirs)
		solver.Copy = p.copyTime(op)
	}
	return solver.Total(op, &split)
}

// piece returns a device's part of a matmul with the first hostRows rows on the CPU.
func piece(op hetero.Op, device, hostRows int) solve.Piece {
	if device == hostDevice {
		return solve.Piece{Device: hostDevice, Tokens: op.Tokens, Padded: op.Tokens, Rows: hostRows}
	}
	return solve.Piece{Device: otherDevice, Tokens: op.Tokens, Padded: op.Tokens, Row: hostRows, Rows: op.Rows - hostRows}
}

// copyTime returns the time to copy half of a matmul's input and output; the solver
// counts it twice.
func (p *planner) copyTime(op hetero.Op) time.Duration {
	if part := sampleOf(op); part.Rows < op.Rows {
		return p.copyTime(part) * time.Duration(op.Rows+op.Cols) / time.Duration(part.Rows+part.Cols)
	}
	device := p.bench.devices[otherDevice]
	if device.Capabilities().SharesMemory {
		return 0
	}
	width := (op.Rows + op.Cols) / 2
	if took, known := p.bench.profile.Copy(p.bench.keys, op.Tokens, width); known {
		return took
	}
	if err := p.bench.allocate(); err != nil {
		p.bench.profiler.Err = err
		return 0
	}
	_, y, _ := p.bench.operands.For(otherDevice, &op, 0)
	y.Stride = width
	clock, least := device.Clock(), time.Duration(0)
	for i := range repeats {
		begin := clock.Now()
		if err := device.FlushRows(y, op.Tokens, width); err != nil {
			p.bench.profiler.Err = err
			return 0
		}
		if took := clock.Now() - begin; i == 0 || took < least {
			least = took
		}
	}
	p.bench.addCopy(profiles.CopyTime{Tokens: op.Tokens, Width: width, Took: least})
	return least
}

// hostCosts are costs where device 0 is the submitting host itself.
type hostCosts struct{ solve.Costs }

// Start returns 0 for the host.
func (h hostCosts) Start(device int) time.Duration {
	if device == hostDevice {
		return 0
	}
	return h.Costs.Start(device)
}

const (
	// answerTokens is how many generated tokens per prompt chunk the comparison of
	// passes assumes.
	answerTokens = 128
	// passOverhead is the assumed ratio of a pass on the device to its matmuls:
	// norms and attention are not measured.
	passOverhead = 1.5
)

// wholePassFaster reports whether the device is predicted to be faster when it
// computes whole passes, without waits between matmuls.
func (p *planner) wholePassFaster(matmuls []weights.Matmul) bool {
	if p.static() {
		return false
	}
	splitTime, there := 0.0, (1+answerTokens)*p.costs.Start(otherDevice).Seconds()
	for _, matmul := range matmuls {
		if !matmul.Splittable() || !p.types[matmul.Type] {
			return false
		}
		count, split := float64(matmul.Count), p.splitOf(matmul)
		one := p.costs.Time(otherDevice, opOf(matmul, 1)).Seconds()
		if matmul.LastTokenOnly {
			splitTime += (1 + answerTokens) * split.SingleTime.Seconds()
			there += (1 + answerTokens) * one
			continue
		}
		splitTime += count * (split.BatchTime.Seconds() + answerTokens*split.SingleTime.Seconds())
		there += count * (p.costs.Time(otherDevice, opOf(matmul, p.chunk)).Seconds() + answerTokens*one)
	}
	return passOverhead*there < splitTime
}
