package serve

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// readBody reads the body of a request. release gives back its room.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	release, err = s.reserveBody(r)
	if err != nil {
		return nil, release, err
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, release, &problem{status: http.StatusUnsupportedMediaType, message: "compressed bodies are not accepted"}
	}
	var buffer bytes.Buffer
	if r.ContentLength > 0 {
		buffer.Grow(int(r.ContentLength) + bytes.MinRead) // so that it does not grow to twice its size
	}
	_, err = buffer.ReadFrom(http.MaxBytesReader(w, r.Body, s.options.MaxBody))
	if err != nil {
		return nil, release, s.bodyProblem(err)
	}
	if out, ok := w.(*writer); ok {
		out.unread = false
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a recorder of tests has no deadlines
	return buffer.Bytes(), release, nil
}

// readObject reads the body of a request, calls read with its object, and returns the error that it has noted.
func (s *Server) readObject(w http.ResponseWriter, r *http.Request, read func(o *object)) error {
	body, release, err := s.readBody(w, r)
	defer release()
	if err != nil {
		return err
	}
	return s.parse(body, read)
}

// parse calls read with the object of a body, and returns the error that it has noted. One body is parsed at a time: the values of
// a small one can take many times its bytes of memory.
func (s *Server) parse(body []byte, read func(o *object)) error {
	s.parsing.Lock()
	defer s.parsing.Unlock()
	fields, err := parseJSON(body)
	if err != nil {
		return badRequest(err.Error())
	}
	o := &object{fields: fields, first: new(error)}
	read(o)
	return o.err()
}

// reserveBody reserves room for a body, so that many large ones do not take the memory of the models.
func (s *Server) reserveBody(r *http.Request) (release func(), err error) {
	size := r.ContentLength
	if size > s.options.MaxBody {
		return func() {}, s.tooLarge()
	}
	if size < 0 { // chunked
		size = s.options.MaxBody
	}
	if s.bodies.Add(size) > s.bodyRoom {
		s.bodies.Add(-size)
		return func() {}, errBusy
	}
	return func() { s.bodies.Add(-size) }, nil
}

// bodiesTogether is how many bodies of the greatest size may be in memory without a budget.
const bodiesTogether = 4

// bodyRoom returns the most bytes of all bodies. With a budget it is a small part of it, because the text of a body and what is
// read from it take several times as much.
func (o *Options) bodyRoom() int64 {
	const part, least = 128, 256 << 10
	room := bodiesTogether * o.MaxBody
	if o.RAM > 0 {
		room = min(room, max(least, o.RAM/part))
	}
	return room
}

// Heap returns the Go heap that the server needs beside its models: connections, bodies while they are read, and responses that can
// be continued, which take as much as the bodies. A program that
// serves with Options.RAM states it, with what it needs itself, by [llmrun.SetProgramHeap], so that the plan of a model has
// room for it.
func (s *Server) Heap() int64 {
	const connections, copies = 4 << 20, 6
	return connections + copies*s.bodyRoom
}

func (s *Server) tooLarge() error {
	return &problem{status: http.StatusRequestEntityTooLarge, message: fmt.Sprintf("the body is larger than %d bytes", s.options.MaxBody)}
}

// bodyProblem returns the error of a body that could not be read.
func (s *Server) bodyProblem(err error) error {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return s.tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &problem{status: http.StatusRequestTimeout, message: "the body did not arrive in time"}
	}
	return badRequest("the body ends too early")
}
