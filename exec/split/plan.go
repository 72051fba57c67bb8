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
)

const (
	// minGain is how much faster than the processor alone another device has to be
	// predicted, and a divided product than each of the two: predictions are too kind
	// to devices that share memory, power and cores. Whole passes have to gain as much
	// when they are tried: less can be chance.
	minGain = 1.05
	// minSaving is how much time it has to save: what the other side of a wait may be
	// late on a machine that has other things to do, too.
	minSaving = 20 * time.Microsecond
	// minPrompt is the fewest tokens that are divided as many are.
	minPrompt = 32
	// splitSteps is about how many places are looked at to divide a product at, rowStep
	// what they are multiples of.
	splitSteps = 32
	rowStep    = 64
	// startMeasurements are what a profiler asks itself: how long one takes to begin,
	// and how much two devices slow each other down, alone and together.
	startMeasurements = 4
)

// planner decides how products are divided.
type planner struct {
	bench    *deviceBench
	chunk    int
	quota    float64
	alone    bool
	costs    solve.Costs
	types    map[quant.Type]bool // that the device multiplies
	splits   map[weights.Product]weights.Share
	hostOnly map[weights.Product]weights.Share // the same with all rows here
	losses   losses
	capacity capacity // nil: the device has memory for all
	// measured is how many products are measured where nothing is known.
	measured int
}

// splitOf returns what was decided, less what was seen to lose; what nobody asked about
// stays here, and what the device has no memory for.
func (p *planner) splitOf(product weights.Product) weights.Share {
	if n, short := p.capacity[matmulKey(product)]; short && n == 0 {
		return p.hostOnly[matmulKey(product)]
	}
	if s, known := p.splits[matmulKey(product)]; known {
		return p.losses.apply(s, p.hostOnly[matmulKey(product)], product.OneToken)
	}
	return weights.Share{One: product.Rows, Many: product.Rows}
}

// matmulKey is a product without how often it occurs.
func matmulKey(p weights.Product) weights.Product {
	p.Count = 0
	return p
}

// static reports whether the device runs prepared lengths only.
func (p *planner) static() bool { return p.bench.devices[otherDevice].Capabilities().Static }

// probeTypes looks which types of weights the device takes. The others are not
// divided.
func (p *planner) probeTypes(products []weights.Product) error {
	p.types = map[quant.Type]bool{}
	var refused error
	for _, product := range products {
		if _, known := p.types[product.Type]; known {
			continue
		}
		op := opOf(product, p.chunk)
		op.Rows = min(op.Rows, rowStep)
		p.bench.operands.For(otherDevice, &op, 0)
		k, err := p.bench.devices[otherDevice].Prepare(op)
		if p.types[product.Type] = err == nil; err != nil {
			refused = fmt.Errorf("%v: %w", product.Type, err)
			continue
		}
		if err := k.Close(); err != nil {
			return err
		}
	}
	for _, product := range products {
		if p.types[product.Type] {
			p.bench.profiler.Weights = product.Type
			return nil
		}
	}
	return fmt.Errorf("%w: it multiplies none of the model's weights: %w", arch.ErrUnsupported, refused)
}

// planAll decides about each product.
func (p *planner) planAll(products []weights.Product) error {
	var samples []hetero.Op
	for _, product := range products {
		if p.types[product.Type] {
			samples = append(samples, p.samples(product)...)
		}
	}
	p.measured = len(samples)*len(p.bench.devices) + startMeasurements
	p.costs = hostCosts{solve.NewPredictor(p.bench.profiler, samples)}
	for _, product := range products {
		if !p.types[product.Type] {
			continue
		}
		share, err := p.plan(product)
		if err != nil {
			return err
		}
		p.splits[matmulKey(product)], p.hostOnly[matmulKey(product)] = share, p.hostSplit(product)
	}
	return p.bench.profiler.Err
}

// hostSplit returns the share of a product all rows of which stay here.
func (p *planner) hostSplit(product weights.Product) weights.Share {
	share := weights.Share{One: product.Rows, Many: product.Rows}
	if !p.static() { // which nothing of one token was measured for
		share.OneTime = p.predict(opOf(product, 1), product.Rows)
		share.ManyTime = share.OneTime
	}
	if !product.OneToken {
		share.ManyTime = p.predict(opOf(product, p.chunk), product.Rows)
	}
	return share
}

// samples are what predictions for a product are learned from.
func (p *planner) samples(product weights.Product) (list []hetero.Op) {
	lengths := []int{1, minPrompt, p.chunk}
	switch {
	case product.OneToken && p.static():
		return nil
	case product.OneToken:
		lengths = lengths[:1]
	case p.static():
		lengths = lengths[2:]
	}
	for _, tokens := range lengths {
		for _, rows := range []int{product.Rows, product.Rows / 4} {
			op := opOf(product, tokens)
			op.Rows = max(rowStep, rows/rowStep*rowStep)
			list = append(list, op)
		}
	}
	return list
}

// plan decides about a product: of one token, of a chunk, and from how many tokens
// on they are divided like a chunk.
func (p *planner) plan(product weights.Product) (weights.Share, error) {
	share := weights.Share{One: product.Rows, Many: product.Rows}
	var err error
	if !p.static() {
		if share.One, share.OneTime, err = p.bestSplit(opOf(product, 1)); err != nil {
			return share, err
		}
		share.Many, share.ManyTime = share.One, share.OneTime
	}
	if product.OneToken {
		return share, nil
	}
	if share.Many, share.ManyTime, err = p.bestSplit(opOf(product, p.chunk)); err != nil {
		return share, err
	}
	for share.Least = min(minPrompt, p.chunk); share.Least < p.chunk; share.Least *= 2 {
		op := opOf(product, share.Least)
		if p.predict(op, share.Many) <= p.predict(op, share.One) {
			break
		}
	}
	share.Least = min(share.Least, p.chunk)
	return share, nil
}

// bestSplit returns how many rows of a product stay here, so that it ends first, and when
// that is.
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
	for here := step; here < op.Rows; here += step {
		t := p.predict(op, here)
		if busy := p.costs.Time(otherDevice, piece(op, otherDevice, here).Op(op)); p.quota > 0 && busy.Seconds() > p.quota*t.Seconds() {
			continue
		}
		if t < took && paysOff(t, alone) {
			rows, took = here, t
		}
	}
	return rows, took, p.bench.profiler.Err
}

// paysOff reports whether a time is so much shorter than another that it is likely to
// be shorter when the model runs.
func paysOff(t, than time.Duration) bool {
	return minGain*t.Seconds() <= than.Seconds() && t+minSaving <= than
}

// predict predicts a product of which so many rows stay here.
func (p *planner) predict(op hetero.Op, here int) time.Duration {
	split := solve.Split{Streamed: op.Streamed}
	if here > 0 {
		split.Pieces = append(split.Pieces, piece(op, hostDevice, here))
	}
	solver := solve.Solver{Costs: p.costs, Static: p.static()}
	if here < op.Rows {
		theirs := piece(op, otherDevice, here)
		if p.static() {
			theirs.Padded = p.chunk
		}
		split.Pieces = append(split.Pieces, theirs)
		solver.Copy = p.copyTime(op)
	}
	return solver.Total(op, &split)
}

// piece returns what a device does of a product of which so many rows stay here.
func piece(op hetero.Op, device, here int) solve.Piece {
	if device == hostDevice {
		return solve.Piece{Device: hostDevice, Tokens: op.Tokens, Padded: op.Tokens, Rows: here}
	}
	return solve.Piece{Device: otherDevice, Tokens: op.Tokens, Padded: op.Tokens, Row: here, Rows: op.Rows - here}
}

// copyTime returns what a copy takes of half of what a product reads and writes: there
// are two, if there are any.
func (p *planner) copyTime(op hetero.Op) time.Duration {
	device := p.bench.devices[otherDevice]
	if device.Capabilities().SharesMemory {
		return 0
	}
	width := (op.Rows + op.Cols) / 2
	if took, known := p.bench.profile.Copy(p.bench.keys, op.Tokens, width); known {
		return took
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

// hostCosts are costs of which device 0 computes at once whatever is asked of it: it is
// who submits.
type hostCosts struct{ solve.Costs }

// Start is nothing for the host.
func (h hostCosts) Start(device int) time.Duration {
	if device == hostDevice {
		return 0
	}
	return h.Costs.Start(device)
}

const (
	// answerTokens is how many tokens are generated behind each chunk of a prompt, when
	// passes are compared.
	answerTokens = 128
	// passOverhead is how many times its products a pass on a device is taken to last: norms
	// and attention are not measured.
	passOverhead = 1.5
)

// wholePassFaster reports whether the device is predicted to compute passes faster when
// all of them runs there, so that nobody waits between two products.
func (p *planner) wholePassFaster(products []weights.Product) bool {
	if p.static() {
		return false
	}
	divided, there := 0.0, (1+answerTokens)*p.costs.Start(otherDevice).Seconds()
	for _, product := range products {
		if !product.Divisible() || !p.types[product.Type] {
			return false
		}
		count, share := float64(product.Count), p.splitOf(product)
		one := p.costs.Time(otherDevice, opOf(product, 1)).Seconds()
		if product.OneToken {
			divided += (1 + answerTokens) * share.OneTime.Seconds()
			there += (1 + answerTokens) * one
			continue
		}
		divided += count * (share.ManyTime.Seconds() + answerTokens*share.OneTime.Seconds())
		there += count * (p.costs.Time(otherDevice, opOf(product, p.chunk)).Seconds() + answerTokens*one)
	}
	return passOverhead*there < divided
}
