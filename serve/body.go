package serve

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// readBody reads the JSON object of a request. release gives back the room of the body.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (o *object, release func(), err error) {
	release, err = s.reserveBody(r)
	if err != nil {
		return nil, release, err
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, release, &problem{status: http.StatusUnsupportedMediaType, message: "compressed bodies are not accepted"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.options.MaxBody))
	if err != nil {
		return nil, release, s.bodyProblem(err)
	}
	if out, ok := w.(*writer); ok {
		out.unread = false
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a recorder of tests has no deadlines
	if err := checkJSON(body); err != nil {
		return nil, release, badRequest(err.Error())
	}
	return newObject(body), release, nil
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
	if s.bodies.Add(size) > bodiesTogether*s.options.MaxBody {
		s.bodies.Add(-size)
		return func() {}, errBusy
	}
	return func() { s.bodies.Add(-size) }, nil
}

// bodiesTogether is how many bodies of the greatest size may be in memory.
const bodiesTogether = 4

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
