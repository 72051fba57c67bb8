package serve

import (
	"bytes"
	"net/http"
	"slices"
	"sync"

	"github.com/llmrun/llmrun"
)

// maxResponses bounds how many responses the server remembers.
const maxResponses = 64

// responses remembers the last responses, so that later ones can continue them. It lies in memory and ends with the server; what it
// holds has a bound.
type responses struct {
	mu   sync.Mutex
	room int64 // bytes of all
	held int64
	list []*storedResponse // the oldest first
}

// storedResponse is a response with the conversation that leads to it, without instructions.
type storedResponse struct {
	id       string
	messages []llmrun.Message
	body     []byte
	bytes    int64
}

// find returns a response by its id.
func (s *responses) find(id string) (*storedResponse, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.index(id); i >= 0 {
		return s.list[i], true
	}
	return nil, false
}

func (s *responses) index(id string) int {
	return slices.IndexFunc(s.list, func(r *storedResponse) bool { return r.id == id })
}

// add remembers a response and its conversation. The oldest ones make room.
func (s *responses) add(r *response, messages []llmrun.Message) {
	var body bytes.Buffer
	if encode(&body, r) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := &storedResponse{id: r.ID, messages: messages, body: body.Bytes(), bytes: int64(body.Len())}
	const perMessage = 64
	for _, m := range stored.messages {
		stored.bytes += perMessage + int64(len(m.Content))
	}
	if stored.bytes > s.room {
		return
	}
	s.list = append(s.list, stored)
	s.held += stored.bytes
	for len(s.list) > maxResponses || s.held > s.room {
		s.held -= s.list[0].bytes
		s.list = slices.Delete(s.list, 0, 1)
	}
}

// remove forgets a response, and reports whether it was there.
func (s *responses) remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(id)
	if i < 0 {
		return false
	}
	s.held -= s.list[i].bytes
	s.list = slices.Delete(s.list, i, i+1)
	return true
}

func (s *Server) refuseResponse(w http.ResponseWriter, id string) {
	openAI{}.refuse(w, &problem{status: http.StatusNotFound, message: "there is no response " + shorten(id) + " any more", param: "id"})
}

func (s *Server) showResponse(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	found, ok := s.responses.find(id)
	if !ok {
		s.refuseResponse(w, id)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(found.body) // a client that has left needs no answer
}

func (s *Server) deleteResponse(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !s.responses.remove(id) {
		s.refuseResponse(w, id)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"id": id, "object": "response", "deleted": true})
}
