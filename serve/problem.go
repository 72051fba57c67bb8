package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/llmrun/llmrun"
)

// problem is the error of a request, before a dialect gives it a shape.
type problem struct {
	status     int
	message    string
	param      string // the field that is wrong; "" for none
	code       string // of OpenAI's API; "" for none
	retryAfter int    // seconds; 0 = none
}

func (p *problem) Error() string { return p.message }

func badRequest(message string) *problem {
	return &problem{status: http.StatusBadRequest, message: message}
}

// statusLeft is the status of requests whose client has left, for metrics and logs; it is never sent.
const statusLeft = 499

// problemOf gives an error a status.
func (s *Server) problemOf(ctx context.Context, err error) *problem {
	var p *problem
	var field *fieldError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &field):
		return &problem{status: http.StatusBadRequest, message: err.Error(), param: field.field}
	case errors.Is(err, errYours):
		return &problem{status: http.StatusTooManyRequests, message: err.Error(), code: "rate_limit_exceeded", retryAfter: s.queue.retryAfter()}
	case errors.Is(err, errBusy):
		return &problem{status: http.StatusServiceUnavailable, message: err.Error(), retryAfter: s.queue.retryAfter()}
	case errors.Is(err, errUnknownModel):
		return &problem{status: http.StatusNotFound, message: err.Error(), param: "model", code: "model_not_found"}
	case errors.Is(err, errTaken), errors.Is(err, errInUse):
		return &problem{status: http.StatusConflict, message: err.Error(), param: "model"}
	case errors.Is(err, errKeptModel):
		return &problem{status: http.StatusForbidden, message: err.Error(), param: "model"}
	case s.ctx.Err() != nil, errors.Is(err, errClosed), errors.Is(err, llmrun.ErrClosed):
		return &problem{status: http.StatusServiceUnavailable, message: errClosed.Error(), retryAfter: 1}
	case ctx.Err() != nil, errors.Is(err, errLeft):
		return &problem{status: statusLeft, message: errLeft.Error()}
	}
	return modelProblem(err)
}

// modelProblem gives an error of the library a status.
func modelProblem(err error) *problem {
	message := strings.TrimPrefix(strings.TrimPrefix(err.Error(), llmrun.ErrSampling.Error()+": "), llmrun.ErrOptions.Error()+": ")
	switch {
	case errors.Is(err, llmrun.ErrContextFull):
		return &problem{status: http.StatusBadRequest, message: message, code: "context_length_exceeded"}
	case errors.Is(err, llmrun.ErrSampling), errors.Is(err, llmrun.ErrOptions), errors.Is(err, llmrun.ErrTemplate),
		errors.Is(err, llmrun.ErrNoTokenizer), errors.Is(err, llmrun.ErrConstraint), errors.Is(err, llmrun.ErrToken):
		return &problem{status: http.StatusBadRequest, message: message}
	case errors.Is(err, llmrun.ErrLocked), errors.Is(err, fs.ErrExist):
		return &problem{status: http.StatusConflict, message: message}
	case errors.Is(err, llmrun.ErrBudget):
		return &problem{status: http.StatusServiceUnavailable, message: message, retryAfter: 10}
	}
	return &problem{status: http.StatusInternalServerError, message: message}
}

// breakOff takes the error of a request. A stream that has started ends with it, so that its client can tell it from an answer; body
// gives it the shape of the API. Otherwise breakOff returns the error, which is then answered by a status.
func (s *Server) breakOff(ctx context.Context, t *stream, err error, body func(*problem) any) error {
	if t == nil || !t.started {
		return err
	}
	p := s.problemOf(ctx, err)
	record := recordOf(ctx)
	record.status, record.problem = p.status, p.message
	if p.status != statusLeft {
		_ = t.send(body(p)) // fails if the client has left
	}
	return nil
}

// A dialect gives answers the shape of an API.
type dialect interface {
	// refuse answers a request with an error.
	refuse(w http.ResponseWriter, p *problem)
}

// dialectOf returns the dialect of a request.
func dialectOf(r *http.Request) dialect {
	path := r.URL.Path
	under := func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }
	if under("/v1/messages") || under("/v1/models") && asksAnthropic(r) {
		return anthropic{}
	}
	if strings.HasPrefix(path, "/v1/") || path == "/v1" {
		return openAI{}
	}
	return ollama{}
}

// writeProblem sends the body of an error.
func writeProblem(w http.ResponseWriter, p *problem, body any) {
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(p.retryAfter))
	}
	writeJSON(w, p.status, body)
}
