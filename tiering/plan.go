package tiering

// Shape describes the sizes of a model for a plan, in the order in which a pass uses
// the weights.
type Shape struct {
	// Layers are the layers of the network without experts, in the order of use. A
	// pass reads each of them completely.
	Layers []Section
	// Head is the final norm and the output matrix, which is also the embedding in a
	// tied model. Decoding reads it for each token, unless HeadLookedUp: no pass multiplies by it, and
	// texts look up rows of the embedding in it.
	Head         Section
	HeadLookedUp bool
	// Unit is the size of the largest part of a matrix that a kernel uses as a whole.
	// A pinned part ends with a whole unit, so it may exceed the plan by one unit; a
	// ring has room for one unit after its pieces. Vectors is the size of norms and
	// biases, which always stay in memory.
	Unit, Vectors int64
	// Embedding is the size of an embedding that is not also the output matrix, 0 in
	// a tied model. It stays on flash, and its rows of RowBytes are read on demand.
	Embedding, RowBytes int64
	// Table is the size of the layers' own embeddings of all tokens, 0 in models without them. It
	// stays on flash like Embedding; its rows have TableRow bytes.
	Table, TableRow int64
	// OtherPinned is the memory of weights outside all sections: an embedding that is
	// loaded completely, or columns of matrices in another format.
	OtherPinned int64
	// Upload is the memory of the largest weights that are copied to a device before the others
	// are read. A plan has room for them beside OtherPinned and the program.
	Upload int64
	// Convert is the memory for converting weights while they are read; 0 if a pack
	// stores them as they are used.
	Convert int64
	// Lookup is the buffer for parallel embedding lookups in the output matrix of a
	// tied model that is not pinned completely; 0 in other models.
	Lookup int64

	// ExpertLayers layers have Experts experts each, of which a token uses
	// ExpertsUsed. ExpertBytes is the size of the largest expert.
	ExpertLayers, Experts, ExpertsUsed int
	ExpertBytes                        int64
	// Pruned is the end of the last layer, behind its keys and values. Only tokens whose logits are wanted pass it, so
	// that no chunk of a prompt but the last one reads it. PrunedExperts states that the last layer has experts there.
	Pruned        int64
	PrunedExperts bool

	// KV of n tokens takes KVFixed + n·KVBytesPerToken bytes in all layers, in the
	// selected format; n is rounded up to KVPageTokens.
	KVFixed, KVBytesPerToken int64
	KVPageTokens             int
	// KVState is the part of KVFixed that each sequence has for itself: recurrent state.
	KVState int64
	// KVSummaryPerToken is the size of the summaries of a token for page selection.
	// They stay in memory wherever the KV is.
	KVSummaryPerToken int64
	// Attended divides KVBytesPerToken by the window in which later tokens attend to it.
	Attended []AttendedKV
	// Selection is the page selection; zero without one.
	Selection Selection
	// KVUnit is the size of the largest page of a layer.
	KVUnit int64
	// KVPageOnFlash is the most that the pages of one position in all layers take on flash.
	KVPageOnFlash int64
	// KVInStream states that the stream of weights can read pages between the weights. KV on
	// flash then needs no ring of its own while weights are streamed.
	KVInStream bool
	// Drafts is the memory of a drafter for sequences of a length, which counts up to DraftTokens. A
	// plan has room for it if it is small beside what is left above the minimum.
	Drafts      Line
	DraftTokens int
	// DraftsRequired refuses plans without room for the drafter.
	DraftsRequired bool
	// Reward is the memory of a reward model for a context.
	Reward Line
	// Scratch is the memory of activations of a prefill chunk in the layers, Logits
	// the memory of activations after the last layer. Both use the same memory.
	Scratch, Logits Line
	// Matmuls is the number of matrices that a token is multiplied with one after the other; the experts of a layer count as one.
	Matmuls int
	// OpsPerToken is the number of operations of the layers for a prompt token; a
	// multiply-add counts as two. Elements is the number of elements of hidden states, over all
	// layers, that are normed, quantized and added for it.
	OpsPerToken, Elements int64
}

// Line is the memory of n tokens: Fixed + n·PerToken.
type Line struct{ Fixed, PerToken int64 }

// At returns the memory of a number of tokens.
func (l Line) At(tokens int) int64 { return l.Fixed + int64(tokens)*l.PerToken }

// AttendedKV is the KV of the layers with the same window.
type AttendedKV struct {
	Window   int   // tokens; 0 = all
	PerToken int64 // bytes
}

// within returns the number of the last n tokens that a token attends to.
func (k AttendedKV) within(n int) int {
	if k.Window > 0 {
		return min(n, k.Window)
	}
	return n
}

// At returns the bytes that a token attends to after n tokens.
func (k AttendedKV) At(n int) int64 { return int64(k.within(n)) * k.PerToken }

// Selection describes how much of a long context a decoded token attends to: Fraction of it, but
// at least Least tokens, besides Always tokens at its ends.
type Selection struct {
	Fraction      float64
	Always, Least int
}

// of returns the tokens that the selection picks out of n.
func (s Selection) of(n int) int {
	if s.Fraction == 0 || n <= s.Always {
		return n
	}
	rest := n - s.Always
	return s.Always + min(rest, max(s.Least, int(s.Fraction*float64(rest))))
}

// Section is a range of weights that are used together and are adjacent on flash.
type Section struct {
	Name  string
	Bytes int64
	// Fixed is the size of the first part, which every plan keeps in memory.
	Fixed int64
	// The streamed part of a section is a multiple of Granule, or the whole section.
	// The pinned part ends at a multiple of Block, so the streamed part may differ by
	// up to a Block.
	Granule, Block int64
}

// Rates are the measured rates of a machine. 0 means unknown; predictions that depend
// on an unknown rate are omitted.
type Rates struct {
	ReadGBs float64 // flash, with reads of the planned size
	// ReadWorkGBs is how much all computing cores together could read if they did nothing else, and ReadCoreGBs how much one
	// of them could: copies, system calls and checksums take processor time from computing. 0 = unknown, or none.
	ReadWorkGBs, ReadCoreGBs float64
	MemGBs                   float64 // weights in memory, during decode
	PrefillGops              float64 // integer operations during prefill
	// KV in memory that attention reads for a token: of decode, and of a prefill chunk, whose
	// tokens share reads.
	AttendGBs, AttendChunkGBs float64
	ConvertGBs                float64 // streamed weights, by all cores; 0 if they need no conversion
	// RoundSeconds is what a round of scattered reads takes besides their transfer at ReadGBs: a
	// layer waits for one when it has picked pages. 0 = unknown.
	RoundSeconds float64
	// ExpertReuse tells how often a router chooses experts that are in memory: if a fraction f of
	// the experts is not there, a token misses MissedUses(f, ExpertReuse) of those that it uses. PromptReuse tells in the
	// same way how many experts the tokens of a chunk share. 1 is a router that chooses evenly, which 0 is taken for: unknown.
	ExpertReuse, PromptReuse float64
}

// Need is the request for a plan, including the memory of the program itself.
type Need struct {
	// Budget is the limit of all memory; 0 means none.
	Budget int64
	// Context is the maximum number of tokens of a conversation. If it is 0, the plan
	// selects up to ContextMax.
	Context, ContextMax int
	// Chunk is the maximum number of tokens of a prefill chunk; 0 means DefaultChunk.
	// The plan uses fewer if memory is scarce.
	Chunk int
	// Talk is the conversation whose time is predicted; zero means a default.
	Talk Talk
	// Code and Heap are the memory of the program itself.
	Code, Heap int64
	// Prompt is the part of Heap with which a shorter prompt would do without.
	Prompt int64
	// Opening is the heap that opening the model takes before anything else is in memory.
	Opening int64
	// Driver is the memory that a device's driver takes for itself while the model runs, and
	// DriverPeak what it takes before, when it loads its libraries and compiles kernels, and nothing
	// else but Opening is in memory.
	Driver, DriverPeak int64
	// Piece is the size of a read; 0 selects a size that fits the ring.
	Piece int64
	// KVBytesLow is the size of a token's KV in the most compact format, so that a
	// refusal can report whether that format would fit; 0 if it is the selected one.
	KVBytesLow int64
	// FixedChunk refuses plans with a smaller prefill chunk: a device's kernels are compiled for
	// it, and its results depend on it.
	FixedChunk bool
	// WholeContext: a chunk has room for a whole context, because tokens attend to later ones too.
	WholeContext bool
	// KVCold permits KV on flash. KVHot then limits its memory; 0 leaves the limit to
	// the plan.
	KVCold bool
	KVHot  int64
	// KVWrites limits the bytes of KV that are written to flash; 0 means no limit. If a plan with
	// a requested context exceeds it, the plan needs to hold only the first KVPrompt tokens.
	KVWrites int64
	KVPrompt int
	// HeldDrafts is what drafters of sessions hold, which stays.
	HeldDrafts int64
}

// Plan states which parts of the weights and the KV of a model are in memory and which
// on flash while the model runs.
type Plan struct {
	Budget int64  // 0 = unlimited
	By     Ledger // maximum memory by purpose

	Context, Chunk int // tokens

	// Pinned is the number of bytes of each layer that stay in memory, from the
	// beginning of the layer; every pass streams the rest through the ring.
	// HeadPinned is the same for the head.
	Pinned     []int64
	HeadPinned int64
	// Ring is the size of the ring buffer for streamed weights, a multiple of Piece, the
	// size of one read. It is 0 if nothing is streamed. The ring needs one more unit,
	// which By includes.
	Ring, Piece int64
	// Lookup is the buffer for embedding lookups of a prompt's tokens in the head, 0
	// if the head is pinned completely.
	Lookup int64

	// KVHot is the limit of KV in memory; older pages move to flash. KVRing is
	// the buffer in which they are read back. Both are 0 if a full context fits. KVCold is
	// how many bytes of a full context are on flash; each token and each prefill chunk
	// reads all of them.
	KVHot, KVRing, KVCold int64
	// KVDepth is the number of tokens beyond which Need.KVWrites is exceeded; 0 if the context
	// does not exceed it.
	KVDepth int
	// KVInStream states that the stream of weights reads KV, so that KVRing is not in By.
	KVInStream  bool
	ExpertSlots int // experts that fit in memory, over all layers

	// StreamedPerToken and StreamedPerChunk are the bytes that one decoded token and one
	// prefill chunk read from flash, if logits of the chunk are wanted.
	StreamedPerToken, StreamedPerChunk int64

	Rates Rates // basis of the predictions
	// Predicted tokens per second of a prompt of several chunks, and of decoding, both at
	// the start of a conversation. They are 0 if a rate is unknown.
	PredictedPrefill, PredictedDecode float64
	// Predicted is how the conversation goes on; nil if a rate is unknown.
	Predicted *Forecast
}

// Resident reports whether the model reads nothing but embedding rows from flash
// while it runs.
func (p *Plan) Resident() bool { return p.Ring == 0 && p.StreamedPerToken == 0 }

// Total returns the maximum memory in use.
func (p *Plan) Total() int64 { return p.By.Total() }

// PinnedBytes returns the bytes of weights that the plan keeps in memory.
func (p *Plan) PinnedBytes() int64 {
	n := p.HeadPinned
	for _, bytes := range p.Pinned {
		n += bytes
	}
	return n
}

// Lean returns the plan with the smallest possible ring for weights. Reads are then
// only slightly ahead of use, so that computation stalls when the flash is slow for a
// moment.
func (p *Plan) Lean(s Shape) *Plan {
	lean := *p
	if p.Ring == 0 {
		return &lean
	}
	m := planner{Shape: s, Need: Need{Piece: p.Piece}}
	if least := m.minimumPieces() * p.Piece; least < p.Ring {
		lean.Ring = least
		lean.By[Ring] -= p.Ring - least
	}
	return &lean
}

// TableRowCache limits the cache of rows of the layers' own embeddings, whose rows are longer than those of
// the embedding.
const TableRowCache = 4 << 20

// cachedRows returns the memory for rows of embeddings that stay on flash.
func (m *planner) cachedRows() (bytes int64) {
	if m.Embedding > 0 {
		bytes = min(m.Embedding, max(EmbeddingRowCache, 2*m.RowBytes))
	}
	if m.Table > 0 {
		bytes += min(m.Table, max(TableRowCache, 2*m.TableRow))
	}
	return bytes
}

// chooseContext selects a context if none was requested: the largest that repeated
// halving of ContextMax yields and that leaves most of the memory to the weights.
func (m *planner) chooseContext() {
	if m.Context > 0 {
		return
	}
	m.Context = m.ContextMax
	room := m.limit() - m.Code - m.Heap
	spare := room - m.OtherPinned - m.Convert - m.fixedPinned() - m.dense() - m.slots(m.experts()) - m.scratch(m.Chunk) - EmbeddingRowCache - min(m.Table, TableRowCache)
	size := m.kv
	if m.KVCold { // a long context costs only summaries until it is used
		size = m.summaries
	}
	if m.WholeContext {
		size = func(tokens int) int64 { return m.kv(tokens) + m.scratch(ChunkOf(tokens)) }
	}
	for m.Context > m.lowContext() && size(m.Context) > max(room/contextDivisor, spare) {
		m.halveContext()
	}
}

// halveContext halves a context that was not requested.
func (m *planner) halveContext() { m.Context = max(m.lowContext(), m.Context/2) }

// lowContext returns the context below which a plan that chooses it does not go.
func (m *planner) lowContext() int {
	if m.WholeContext {
		return lowWholeContext
	}
	return lowContext
}

// makeContext makes a plan for the context.
func (m *planner) makeContext(r Rates) (*Plan, error) {
	try := *m
	if try.WholeContext {
		try.Chunk, try.FixedChunk = ChunkOf(try.Context), true
	}
	if !try.FixedChunk {
		try.Chunk = min(try.Chunk, ChunkOf(try.Context))
	}
	if try.KVCold {
		return try.makeKV(r)
	}
	try.hot = try.kv(try.Context)
	return try.make(r)
}
