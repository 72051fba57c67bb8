package jinja

// Templates come from model files and are untrusted. These limits bound the time of any
// template to a second and bound its memory. Each limit is far above the needs of real
// templates and conversations.
const (
	// maxSource is the maximum length of a source in bytes. The largest templates of
	// published models have about 30 KB.
	maxSource = 1 << 20
	// maxTokens bounds the size of the syntax tree, which has about 100 bytes per
	// token.
	maxTokens = 1 << 18
	// maxNesting bounds the recursion of the parser over blocks and brackets.
	maxNesting = 100
	// maxChain is the maximum number of operators in a left-associative chain such as
	// a+b+c…. The tree of a chain is as deep as the chain is long.
	maxChain = 1000
	// maxDepth is the maximum depth of nested evaluations, including macro calls.
	maxDepth = 4000
	// maxSteps bounds the work of one rendering. A step is a node evaluation, a loop
	// iteration or the scan of bytesPerStep bytes. Each byte of input adds a step, so a
	// template may iterate over a long conversation several times.
	maxSteps     = 3_000_000
	bytesPerStep = 32
	// maxOutput is the maximum length in bytes of the output and of a single string.
	maxOutput = 16 << 20
	// The values of one rendering may allocate baseAlloc bytes plus allocPerInput bytes
	// per byte of input, and at most maxAlloc bytes. The sum includes garbage, so it
	// bounds live memory without tracking lifetimes.
	baseAlloc     = 64 << 20
	allocPerInput = 64
	maxAlloc      = 512 << 20
	// allocStep is the granularity in bytes at which a rendering reserves memory.
	allocStep = 1 << 20
	// maxRange is the maximum length of range(), as in Jinja's sandbox.
	maxRange = 100_000
	// maxValueDepth is the maximum nesting of values that are printed, compared or
	// converted. It ends the traversal of cycles, which namespaces can form.
	maxValueDepth = 200
	// maxPadding is the maximum width of a format directive.
	maxPadding = 1 << 16
	// maxTrimSet is the maximum length in bytes of the character set for strip.
	maxTrimSet = 1024
	// maxKeyText is the maximum length of a tuple key in bytes. Every lookup builds the
	// text of the key.
	maxKeyText = 4096
	// maxDigits is the maximum number of characters of a number that is parsed from
	// text.
	maxDigits = 512
	// valueSize is the charge in bytes for an element of a list or mapping.
	valueSize = 16
	// macroSlots is the charge for a macro, which retains its scope.
	macroSlots = 16
)

// meter counts the steps and the allocation of one rendering. It is not safe for
// concurrent use; every rendering has its own meter.
type meter struct {
	steps     int // remaining steps
	allocated int // allocated bytes so far
	allocMax  int
	granted   int // bytes that the caller has reserved
	reserve   func(bytes int64) error
	depth     int // current depth of evaluation
}

// newMeter returns a meter with the limits for an input of inputBytes bytes.
func newMeter(inputBytes int, in *Input) *meter {
	inputBytes = min(inputBytes, maxOutput)
	return &meter{
		steps: maxSteps + inputBytes, allocMax: min(baseAlloc+allocPerInput*inputBytes, maxAlloc),
		granted: int(in.Granted), reserve: in.Reserve,
	}
}

// chargeSteps charges n steps.
func (m *meter) chargeSteps(n int) error {
	m.steps -= n
	if m.steps < 0 {
		return limitErrorf("rendering takes too many steps")
	}
	return nil
}

// chargeDeferred charges n steps where the caller cannot return an error. The next call
// of chargeSteps reports the excess.
func (m *meter) chargeDeferred(n int) { m.steps -= n }

// chargeScan charges the reading of n bytes.
func (m *meter) chargeScan(n int) error { return m.chargeSteps(1 + n/bytesPerStep) }

// chargeBytes charges n bytes of new values. The caller allocates them afterwards.
func (m *meter) chargeBytes(n int) error {
	if n < 0 || n > m.allocMax-m.allocated {
		return limitErrorf("the values of the template exceed %d MiB", m.allocMax>>20)
	}
	if more := m.allocated + n - m.granted; more > 0 && m.reserve != nil {
		more = (more + allocStep - 1) / allocStep * allocStep
		if err := m.reserve(int64(more)); err != nil {
			return err
		}
		m.granted += more
	}
	m.allocated += n
	return m.chargeSteps(1 + n/bytesPerStep)
}

// chargeString charges a new string of n bytes. It returns an error if n exceeds
// maxOutput or is negative.
func (m *meter) chargeString(n int) error {
	if n < 0 || n > maxOutput {
		return limitErrorf("a string exceeds %d MiB", maxOutput>>20)
	}
	return m.chargeBytes(n)
}

// chargeSlots charges n new elements of a list or mapping.
func (m *meter) chargeSlots(n int) error {
	if n < 0 || n > maxAlloc/valueSize {
		return limitErrorf("a sequence exceeds %d elements", maxAlloc/valueSize)
	}
	return m.chargeBytes(n * valueSize)
}

// enter starts a nested evaluation, and leave ends it.
func (m *meter) enter() error {
	m.depth++
	if m.depth > maxDepth {
		return limitErrorf("evaluation nests deeper than %d", maxDepth)
	}
	return m.chargeSteps(1)
}

func (m *meter) leave() { m.depth-- }
