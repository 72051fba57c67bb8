package tiering

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
	for m.Context > lowContext && size(m.Context) > max(room/contextDivisor, spare) {
		m.halveContext()
	}
}

// halveContext halves a context that was not requested.
func (m *planner) halveContext() { m.Context = max(lowContext, m.Context/2) }

// makeContext makes a plan for the context.
func (m *planner) makeContext(r Rates) (*Plan, error) {
	try := *m
	if !try.FixedChunk {
		try.Chunk = min(try.Chunk, ChunkOf(try.Context))
	}
	if try.KVCold {
		return try.makeKV(r)
	}
	try.hot = try.kv(try.Context)
	return try.make(r)
}
