package main

import (
	"fmt"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// follow returns the prompt behind the messages of its session. A document that the session has read is not read again:
// a command that is repeated is answered again, in place of its answer, and another question about the document is
// all that follows.
func (r *runFlags) follow(s *cli.Streams, said []llmrun.Message, prompt runPrompt) runPrompt {
	prompt.said = said
	last := len(said) - 1
	if last < 0 || said[last].Role == "user" || prompt.ids != nil || !r.prompt.hasDocument() {
		return prompt // a message without an answer is continued, see llmrun.AddUserMessage
	}
	if last > 0 && said[last-1].Role == "user" && said[last-1].Content == prompt.text {
		s.Note(fmt.Sprintf("session %s has already read the document, and its last question is this one: it is answered again, in place of its answer", r.model.session))
		prompt.said = said[:last-1]
		return prompt
	}
	document := prompt.text[:r.prompt.document]
	for i := range said {
		if rest, begins := strings.CutPrefix(said[i].Content, document); said[i].Role == "user" && begins && (rest == "" || strings.HasPrefix(rest, "\n\n")) && document != "" {
			s.Note(fmt.Sprintf("session %s has already read the document: only the text of -p is added", r.model.session))
			prompt.text, r.prompt.document = *r.prompt.text, 0
			return prompt
		}
	}
	return prompt
}
