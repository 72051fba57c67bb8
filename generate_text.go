package llmrun

// How long the text of a token is, its model's files decide: a piece of the vocabulary, which the decoder may make 2048 times
// as long. A thousand tokens can be sixty megabytes, so the budget counts the answers of a session.

const (
	// textCost bounds the heap that a byte of an answer takes until the generation ends: in the session and in the program,
	// if that collects the pieces too. Both texts grow by copying.
	textCost = 8
	// keptTextCost is the same for a byte of an answer that is part of the conversation.
	keptTextCost = 2
	// textFree is the cost of answers that is part of heapBytes: that of 128 KiB.
	textFree = 128 << 10 * textCost
	// textStep is the granularity in which answers reserve memory.
	textStep = 512 << 10
)

// heldText is the memory of a session's answers. The goroutine that set running owns it.
type heldText struct {
	room    *Room // nil: they are short
	kept    int64 // bytes of the conversation
	growing int64 // bytes of the answer
}

// begin counts the conversation before an answer, or after it.
func (a *heldText) begin(s *Session) error {
	a.kept, a.growing = 0, 0
	s.mu.Lock()
	for i := range s.messages {
		if m := &s.messages[i]; m.Role == "assistant" {
			a.kept += int64(len(m.Content) + len(m.Thinking))
		}
	}
	s.mu.Unlock()
	return a.resize(s.engine)
}

// add counts the texts of a token before they become part of the answer.
func (a *heldText) add(e *Engine, next *sampled) error {
	a.growing += int64(len(next.Text))
	for i := range next.more {
		a.growing += int64(len(next.more[i].Text))
	}
	return a.resize(e)
}

// resize reserves what the answers take.
func (a *heldText) resize(e *Engine) error {
	need := keptTextCost*a.kept + textCost*a.growing - textFree
	if need <= 0 {
		a.close()
		return nil
	}
	if a.room == nil {
		a.room = e.NewRoom("the text of the answers")
	}
	need = (need + textStep - 1) / textStep * textStep
	if need == a.room.Bytes() {
		return nil
	}
	return a.room.Resize(need)
}

func (a *heldText) close() {
	if a.room != nil {
		a.room.Close()
		a.room = nil
	}
}
