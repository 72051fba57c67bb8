package llmrun

// CheckMemory returns an error that names what the engine still holds.
func (e *Engine) CheckMemory() error { return e.model.Budget().Check() }
