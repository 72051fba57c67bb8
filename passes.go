package llmrun

import "github.com/llmrun/llmrun/exec"

// PassUse counts passes over the weights. Sessions that generate at the same time share them.
type PassUse struct {
	Passes int64 `json:"passes"`
	Tokens int64 `json:"tokens"` // of all passes: of prompts and answers, and guesses
}

// PassUse returns the passes since the engine was opened, of all sessions.
func (e *Engine) PassUse() PassUse {
	s := exec.Passes(e.model)
	return PassUse{Passes: s.Passes, Tokens: s.Tokens}
}
