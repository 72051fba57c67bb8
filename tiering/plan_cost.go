package tiering

import (
	"iter"
	"math"
)

// Talk is a conversation: a prompt and its answer, in tokens.
type Talk struct{ Prompt, Answer int }

// Forecast predicts a conversation that fills the context.
type Forecast struct {
	// Talk is the conversation of the times below.
	Talk Talk
	// DecodeStart, DecodeHalf and DecodeFull are tokens per second with an empty context, with
	// half of it, and with the last token of it.
	DecodeStart, DecodeHalf, DecodeFull float64
	// FirstToken is the seconds of the prompt, Total those of the prompt and the answer.
	FirstToken, Total float64
	// PromptPasses is the number of passes of the prompt, and PromptRead the bytes of weights that they read from flash.
	PromptPasses int
	PromptRead   int64
	// Compute and Read are the seconds of a token with an empty context.
	Compute, Read float64
	// alone is the part of them that does not run beside the other; see coster.alone. readWork is the processor time of
	// reading that slows computing down.
	alone, readWork float64
}

// Pass predicts the seconds of a pass with an empty context that computes a multiple of what one token needs.
func (f *Forecast) Pass(computes float64) float64 {
	return together(computes*f.Compute+f.readWork, f.Read, f.alone)
}

// defaultPrompt is the prompt of a conversation that the user did not describe, in tokens. It
// is half of the context where that is less.
const defaultPrompt = 512

// forecast predicts the conversation of a plan, or returns nil if a rate is unknown.
func (m *planner) forecast(p *Plan) *Forecast {
	c := coster{m, p, p.Rates}
	if !c.known() {
		return nil
	}
	f := &Forecast{Talk: m.talk()}
	f.DecodeStart = 1 / c.decode(0)
	f.Compute, f.Read, f.alone = c.work(0), c.stream(p.StreamedPerToken), c.alone()
	f.readWork = c.readWork(p.StreamedPerToken, f.alone, f.Compute)
	f.DecodeHalf = 1 / c.decode(p.Context/2)
	f.DecodeFull = 1 / c.decode(max(0, p.Context-1))
	f.FirstToken = c.prompt(f.Talk.Prompt)
	f.PromptPasses, f.PromptRead = c.promptReads(f.Talk.Prompt)
	f.Total = f.FirstToken + c.answer(f.Talk.Prompt, f.Talk.Answer)
	return f
}

// talk returns the conversation to predict, within the context.
func (m *planner) talk() Talk {
	t := m.Talk
	if t.Prompt <= 0 {
		t.Prompt = min(defaultPrompt, m.Context/2)
	}
	t.Prompt = max(1, min(t.Prompt, m.Context))
	t.Answer = max(0, min(t.Answer, m.Context-t.Prompt))
	return t
}

// coster computes the times of a plan.
type coster struct {
	*planner
	plan  *Plan
	rates Rates
}

// known reports whether all rates that the plan depends on are known.
func (c *coster) known() bool {
	r := &c.rates
	reads := c.plan.StreamedPerToken > 0 || c.plan.StreamedPerChunk > 0 || c.plan.KVCold > 0
	return r.MemGBs > 0 && r.PrefillGops > 0 && c.OpsPerToken > 0 && (r.ReadGBs > 0 || !reads)
}

// seconds returns the time for bytes at a rate in GB/s; 0 for an unknown rate.
func seconds(bytes int64, gbs float64) float64 {
	if bytes == 0 || gbs <= 0 {
		return 0
	}
	return float64(bytes) / (gbs * 1e9)
}

// flash returns the time for reading bytes from flash.
func (c *coster) flash(bytes int64) float64 { return seconds(bytes, c.rates.ReadGBs) }

// read returns the time for reading weights from flash. Threads that read also convert, so that
// both times add up.
func (c *coster) read(bytes int64) float64 {
	return c.flash(bytes) + seconds(bytes, c.rates.ConvertGBs)
}

// stream returns the time for reading weights through the ring.
func (c *coster) stream(bytes int64) float64 {
	if c.plan.Ring == 0 {
		return c.read(bytes)
	}
	return c.read(bytes) + c.alone()*handoff*float64(bytes)/float64(c.plan.Piece)
}

// alone returns which part of computing and reading does not run beside the other: all of it in the smallest ring, in which
// the piece after the next cannot be read before one is used, and nothing in a ring of ringPieces.
func (c *coster) alone() float64 {
	if c.plan.Ring == 0 {
		return 0
	}
	more := float64(c.plan.Ring/c.plan.Piece - minPieces)
	return max(0, 1-more/(ringPieces-minPieces))
}

// withoutExperts returns the bytes that a plan counts for a number of tokens, without experts.
func (c *coster) withoutExperts(counted int64, tokens int) int64 {
	return counted - c.expertReads(c.plan, tokens, &c.plan.Rates)
}

// decode returns the time of one token at a depth. Nothing computes while experts are read: the
// router chooses them just before they are needed.
func (c *coster) decode(depth int) float64 {
	r := &c.rates
	streamed, experts := c.withoutExperts(c.plan.StreamedPerToken, 1), c.read(c.expertReads(c.plan, 1, r))
	cold, picked := c.cold(depth), 0.0
	if c.Selection.of(depth) < depth {
		cold, picked = c.coldWithin(depth), c.pickTime(depth)
	}
	work := c.work(depth)
	work += c.readWork(streamed+cold, c.alone(), work)
	return together(work, c.stream(streamed)+c.flash(cold), c.alone()) + experts + picked
}

// readWork returns by how much reading bytes lengthens the computing of a pass beside it, which takes work seconds: the processor time of
// the reads. A part of the reads runs alone, and takes no time from computing.
//
// A read takes the core of one thread. The others do what that thread has not begun of the matmul, and wait for it at the end. So a read
// as short as a matmul delays each thread by its part of the read, and one that is much longer than a matmul delays all by the whole read.
func (c *coster) readWork(bytes int64, alone, work float64) float64 {
	shared, waiting := seconds(bytes, c.rates.ReadWorkGBs), 0.0
	if read := seconds(c.plan.Piece, c.rates.ReadCoreGBs); read > 0 && c.Matmuls > 0 {
		waiting = max(0, 1-work/float64(c.Matmuls)/read)
	}
	return (1 - alone) * (shared + waiting*max(0, seconds(bytes, c.rates.ReadCoreGBs)-shared))
}

// work returns the time of computing one token at a depth.
func (c *coster) work(depth int) float64 {
	attended := c.attended(c.Selection.of(depth))
	return seconds(c.TokenBytes(), c.rates.MemGBs) + seconds(attended+int64(depth)*c.KVSummaryPerToken, c.rates.AttendGBs)
}

// attended returns the bytes of KV that a token attends to after n tokens.
func (c *coster) attended(n int) (bytes int64) {
	for _, k := range c.Attended {
		bytes += k.At(n)
	}
	return bytes
}

// hotTokens returns the number of tokens whose KV is in memory.
func (c *coster) hotTokens() int {
	if c.plan.KVCold == 0 || c.KVBytesPerToken == 0 {
		return math.MaxInt
	}
	return int(c.plan.KVHot / c.KVBytesPerToken)
}

const (
	// pickedAlike is the fraction of the pages that a token picks which the token before picked
	// too, and keptRing the part of the ring that keeps them; see
	// docs/decisions/2026-11-24-keeping-picked-pages.md. pickedWaste is what reads of single
	// pages read besides them.
	pickedAlike, keptRing, pickedWaste = 0.75, 0.75, 1.25
	// pickDelay is the time in seconds by which streamed weights delay the reads of a layer's
	// pages, fitted to measurements in docs/results/budget.md.
	pickDelay = 2e-3
)

// pickTime returns the time in which a token of a page selection reads the pages on flash that
// it picks. Nothing computes in the meantime: the picks of a layer depend on its queries.
func (c *coster) pickTime(depth int) float64 {
	picked := float64(c.picked(depth))
	if picked == 0 {
		return 0
	}
	kept := min(1, keptRing*float64(c.plan.KVRing)/picked)
	round := c.rates.RoundSeconds
	if c.plan.StreamedPerToken > 0 {
		round = max(round, pickDelay)
	}
	return c.flash(int64(pickedWaste*(1-pickedAlike*kept)*picked)) + round*float64(len(c.Layers))
}

// picked returns the bytes of the pages on flash that a token of a page selection attends to: the
// first page, those of the last tokens that are not in memory, and of the others as many of the
// picked ones as of all of them are on flash.
func (c *coster) picked(depth int) (bytes int64) {
	hot := c.hotTokens()
	if hot >= depth {
		return 0
	}
	first := min(max(1, c.KVPageTokens), c.Selection.Always)
	last := c.Selection.Always - first
	others := max(0, depth-c.Selection.Always)
	tokens := first + max(0, last-hot)
	if others > 0 {
		tokens += int(float64(c.Selection.of(depth)-c.Selection.Always) * min(1, float64(depth-max(hot, last)-first)/float64(others)))
	}
	for _, k := range c.Attended {
		if k.Window == 0 {
			bytes += int64(tokens) * k.PerToken
		}
	}
	return bytes
}

// cold returns the bytes of KV on flash that a token at a depth attends to, and that the tokens
// of a prefill chunk read together.
func (c *coster) cold(depth int) (bytes int64) {
	hot := min(depth, c.hotTokens())
	for _, k := range c.Attended {
		bytes += int64(max(0, k.within(depth)-hot)) * k.PerToken
	}
	return bytes
}

// coldWithin is cold of the layers with a window, which read all of it with a page selection too.
func (c *coster) coldWithin(depth int) (bytes int64) {
	hot := min(depth, c.hotTokens())
	for _, k := range c.Attended {
		if k.Window > 0 {
			bytes += int64(max(0, k.within(depth)-hot)) * k.PerToken
		}
	}
	return bytes
}

// prompt returns the time of a prompt at the start of a conversation, until its first token.
func (c *coster) prompt(tokens int) (sum float64) {
	for k := range c.chunks(tokens) {
		sum += c.chunkTime(k)
	}
	return sum + c.headTime()
}

// promptReads returns the passes of a prompt and the bytes of weights that they read, with the head for the first token.
func (c *coster) promptReads(tokens int) (passes int, bytes int64) {
	for k := range c.chunks(tokens) {
		passes, bytes = passes+1, bytes+c.denseReads(k)+c.chunkExpertReads(k)
	}
	return passes, bytes + c.headReads()
}

// chunk is a prefill chunk.
type chunk struct {
	depth, tokens int
	first         bool // of a process, with no expert in memory
	last          bool // logits of its last token are wanted
}

// chunks yields the chunks of a prompt at the start of a conversation.
func (c *coster) chunks(tokens int) iter.Seq[chunk] {
	return func(yield func(chunk) bool) {
		for at := 0; at < tokens; at += c.plan.Chunk {
			n := min(c.plan.Chunk, tokens-at)
			if !yield(chunk{at, n, at == 0, at+n == tokens}) {
				return
			}
		}
	}
}

// denseReads returns the bytes that a chunk reads of all weights but experts and the head.
func (c *coster) denseReads(k chunk) int64 {
	n := c.withoutExperts(c.plan.StreamedPerChunk, c.plan.Chunk)
	if last := len(c.Layers) - 1; !k.last && last >= 0 {
		n -= min(c.Pruned, c.Layers[last].Bytes-c.plan.Pinned[last])
	}
	return n
}

// chunkExpertReads returns the bytes of experts that a chunk reads. The first chunk of a process finds none in memory, unless
// memory holds all of them.
func (c *coster) chunkExpertReads(k chunk) int64 {
	if c.experts() == 0 {
		return 0
	}
	each := func(tokens int) float64 {
		if k.first && c.plan.ExpertSlots < c.experts() {
			return c.expertsUsedBy(tokens, &c.rates)
		}
		return c.missingExperts(c.plan, tokens, &c.rates)
	}
	n := float64(c.ExpertLayers) * each(k.tokens)
	if c.PrunedExperts {
		n -= each(k.tokens)
		if k.last {
			n += each(1)
		}
	}
	return int64(n * float64(c.ExpertBytes))
}

// chunkTime returns the time of a prefill chunk. The stream reads weights while the dense part of the layers computes. Experts are
// read when the router has chosen them, while those that have arrived compute; nothing does until the first have.
func (c *coster) chunkTime(k chunk) float64 {
	depth, tokens := k.depth, float64(k.tokens)
	r := &c.rates
	rate := r.PrefillGops * 1e9
	experts := c.expertOps()
	attended := int64(tokens) * c.attended(depth+k.tokens/2)
	work := tokens*(float64(c.OpsPerToken)-experts+elementOps*float64(c.Elements))/rate + seconds(attended, r.AttendChunkGBs)
	// A chunk reads the weights, reads the older KV, and writes as much KV as it displaces.
	displaced := int64(min(k.tokens, max(0, depth+k.tokens-c.hotTokens()))) * c.KVBytesPerToken
	reads, cold := c.denseReads(k), c.cold(depth)+displaced
	dense := together(work+c.readWork(reads+cold, c.alone(), work), c.stream(reads)+c.flash(cold), c.alone())
	if c.Experts == 0 {
		return dense
	}
	used := c.expertsUsedBy(k.tokens, r)
	// Few tokens for each of many experts take as long as reading these from memory.
	work = max(tokens*experts/rate, seconds(int64(float64(c.ExpertLayers)*used*float64(c.ExpertBytes)), r.MemGBs))
	reads, alone := c.chunkExpertReads(k), min(1, ExpertReads/used)
	return dense + together(work+c.readWork(reads, alone, math.Inf(1)), c.read(reads), alone)
}

// expertOps returns the part of OpsPerToken that experts make.
func (c *coster) expertOps() float64 {
	all := c.TokenBytes() - c.Head.Bytes
	if all <= 0 {
		return 0
	}
	experts := int64(c.ExpertLayers) * int64(c.ExpertsUsed) * c.ExpertBytes
	return float64(c.OpsPerToken) * float64(experts) / float64(all)
}

// headReads returns the part of the head that is not in memory.
func (c *coster) headReads() int64 {
	if c.HeadLookedUp {
		return 0
	}
	return c.Head.Bytes - c.plan.HeadPinned
}

// headTime returns the time for the part of the head that is not in memory when the last
// token of a prompt reaches it: it is read while nothing computes.
func (c *coster) headTime() float64 { return c.read(max(0, c.headReads()-c.plan.Ring)) }

// answerSteps is the number of intervals of the integral over an answer. It is even.
const answerSteps = 16

// answer returns the time of an answer after a prompt: the integral of the time of a token over
// its depth, by Simpson's rule.
func (c *coster) answer(from, tokens int) float64 {
	if tokens <= 1 {
		return 0 // the prompt gives the first token
	}
	sum := 0.0
	for i := range answerSteps + 1 {
		weight := 2 + 2*float64(i%2)
		if i == 0 || i == answerSteps {
			weight = 1
		}
		sum += weight * c.decode(from+(tokens-1)*i/answerSteps)
	}
	return sum / (3 * answerSteps) * float64(tokens-1)
}

// count records the bytes that passes read from flash.
func (m *planner) count(p *Plan) {
	layers, head := int64(0), m.Head.Bytes-p.HeadPinned
	for i := range m.Layers {
		layers += m.Layers[i].Bytes - p.Pinned[i]
	}
	if m.HeadLookedUp {
		head = 0
	}
	p.StreamedPerToken = layers + head + m.expertReads(p, 1, &p.Rates)
	p.StreamedPerChunk = layers + m.expertReads(p, p.Chunk, &p.Rates)
}

// TokenBytes returns the bytes of weights in the matmuls of one token.
func (s *Shape) TokenBytes() int64 {
	n := s.Head.Bytes + int64(s.ExpertLayers)*int64(s.ExpertsUsed)*s.ExpertBytes
	for i := range s.Layers {
		n += s.Layers[i].Bytes
	}
	return n
}

// Constants fitted to three model shapes on one machine, see docs/results/budget.md.
const (
	// overlapCost is the fraction of the shorter of computing and reading that adds
	// to the total time, because both use the cores and the memory.
	overlapCost = 0.1
	// handoff is the time in seconds from the end of a read to the beginning of the next one in
	// the smallest ring.
	handoff = 1.5e-4
	// elementOps is the cost of one of Shape.Elements besides matmuls and attention, in
	// operations of matmuls.
	elementOps = 10e3
)

// together returns the time of computing and reading in parallel, but for a part of both.
func together(compute, read, alone float64) float64 {
	return max(compute, read) + (overlapCost+alone*(1-overlapCost))*min(compute, read)
}

// predict records the predicted speeds.
func (m *planner) predict(p *Plan) {
	c := coster{m, p, p.Rates}
	if p.Predicted = m.forecast(p); p.Predicted == nil {
		return
	}
	p.PredictedDecode = p.Predicted.DecodeStart
	p.PredictedPrefill = float64(p.Chunk) / (c.chunkTime(chunk{tokens: p.Chunk, last: true}) + c.headTime())
}
