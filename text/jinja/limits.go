package jinja

// Templates come out of model files, so they are hostile input. These bounds keep
// the worst of them under a second and within a fixed amount of memory; each
// is far above what real templates and conversations need.
const (
	// maxSource is the longest source in bytes; the largest templates that
	// models ship are about 30 KB.
	maxSource = 1 << 20
	// maxTokens bounds the syntax tree (about 100 bytes a token).
	maxTokens = 1 << 18
	// maxNesting bounds recursion of the parser over blocks and parentheses.
	maxNesting = 100
	// maxChain bounds the operators of one left-leaning chain such as a+b+c…,
	// since the tree of a chain is as deep as it is long.
	maxChain = 1000
	// maxDepth bounds nested evaluations, macro calls included.
	maxDepth = 4000
	// maxSteps bounds the work of one rendering: nodes evaluated, loop turns,
	// and a step for every bytesPerStep bytes that an operation scans. Each byte of
	// input adds a step, so that long conversations may be gone through often.
	maxSteps     = 3_000_000
	bytesPerStep = 32
	// maxOutput is the longest rendered prompt and the longest single string.
	maxOutput = 16 << 20
	// Values may allocate baseAlloc bytes plus allocPerInput for each byte of
	// input, never above maxAlloc. The sum counts garbage too: it bounds live
	// memory without tracking lifetimes.
	baseAlloc     = 64 << 20
	allocPerInput = 64
	maxAlloc      = 512 << 20
	// maxRange is the longest range(), as in Jinja's sandbox.
	maxRange = 100_000
	// maxValueDepth bounds the nesting of values that are printed, compared or
	// converted: namespaces can build cycles.
	maxValueDepth = 200
	// maxPadding is the widest field of a format directive.
	maxPadding = 1 << 16
	// maxTrimSet is the longest set of characters for strip.
	maxTrimSet = 1024
	// maxKeyText is the longest tuple key, whose text is built at every look-up.
	maxKeyText = 4096
	// maxDigits is the longest number that is read from text.
	maxDigits = 512
	// valueSize is what a value is charged for a slot in a list or a mapping.
	valueSize = 16
	// macroSlots is the charge for a macro, which keeps its scope alive.
	macroSlots = 16
)

// meter counts what one rendering consumes. It is not safe for concurrent use;
// each rendering has its own.
type meter struct {
	steps     int // steps left
	allocated int // bytes charged so far
	allocMax  int
	depth     int // evaluations in progress
}

// newMeter sets the bounds for an input of a size.
func newMeter(inputBytes int) *meter {
	inputBytes = min(inputBytes, maxOutput)
	return &meter{steps: maxSteps + inputBytes, allocMax: min(baseAlloc+allocPerInput*inputBytes, maxAlloc)}
}

// chargeSteps charges n units of work.
func (m *meter) chargeSteps(n int) error {
	m.steps -= n
	if m.steps < 0 {
		return limitErrorf("the template works too long")
	}
	return nil
}

// chargeDeferred counts n units of work where no error can be returned; the next step
// reports the excess.
func (m *meter) chargeDeferred(n int) { m.steps -= n }

// chargeScan charges the reading of n bytes.
func (m *meter) chargeScan(n int) error { return m.chargeSteps(1 + n/bytesPerStep) }

// chargeBytes charges n bytes of new values, before they are made.
func (m *meter) chargeBytes(n int) error {
	if n < 0 || n > m.allocMax-m.allocated {
		return limitErrorf("values take more than %d MiB", m.allocMax>>20)
	}
	m.allocated += n
	return m.chargeSteps(1 + n/bytesPerStep)
}

// chargeString charges a new string of n bytes and refuses one longer than any output.
func (m *meter) chargeString(n int) error {
	if n < 0 || n > maxOutput {
		return limitErrorf("a string of more than %d MiB", maxOutput>>20)
	}
	return m.chargeBytes(n)
}

// chargeSlots charges n new elements of a list or mapping.
func (m *meter) chargeSlots(n int) error {
	if n < 0 || n > maxAlloc/valueSize {
		return limitErrorf("a sequence of more than %d elements", maxAlloc/valueSize)
	}
	return m.chargeBytes(n * valueSize)
}

// enter and leave bracket one nested evaluation.
func (m *meter) enter() error {
	m.depth++
	if m.depth > maxDepth {
		return limitErrorf("evaluation nests deeper than %d", maxDepth)
	}
	return m.chargeSteps(1)
}

func (m *meter) leave() { m.depth-- }
