package hub

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/llmrun/llmrun/internal/ended"
)

// DefaultEndpoint is the server of hf: references.
const DefaultEndpoint = "https://huggingface.co"

// A Client asks servers. Its methods are safe for concurrent use.
type Client struct {
	// Endpoint is the server of hf: references; "" = DefaultEndpoint. Token is sent to it, and to nobody else.
	Endpoint, Token string
	// Transport sends requests; nil = http.DefaultTransport, which uses the proxies of the environment.
	Transport http.RoundTripper
	// Agent is sent as the name of the program.
	Agent string
	// Pause waits between two attempts; nil = a timer.
	Pause func(ctx context.Context, d time.Duration) error
	// Stall is how long a connection may be silent; 0 = a minute.
	Stall time.Duration
	// Notify reports what the user should know, such as that a file changed meanwhile; nil = nothing.
	Notify func(text string)
}

// FromEnvironment returns a client with the endpoint and the token of the environment.
func FromEnvironment(getenv func(string) string) *Client {
	return &Client{Endpoint: strings.TrimSpace(getenv("HF_ENDPOINT")), Token: strings.TrimSpace(getenv("HF_TOKEN"))}
}

// Errors of servers.
var (
	// ErrDowngrade reports a redirect from an encrypted connection to one that is not.
	ErrDowngrade = errors.New("redirects to http, which is not encrypted")
	// ErrServer reports an answer that contradicts itself or what was published.
	ErrServer = errors.New("the server's answer is wrong")
)

const (
	maxRedirects = 10
	// maxJSON limits answers of APIs. The listing of a thousand files has less than a megabyte.
	maxJSON = 32 << 20
	// defaultStall is the silence after which a connection counts as lost.
	defaultStall = time.Minute
)

// A StatusError is an answer of a server that is no success.
type StatusError struct {
	URL     string // without its query
	Code    int
	Reason  string        // from the server, "" without one
	Advice  string        // what to do, "" if nothing is known
	Retry   time.Duration // how long the server asks to wait
	granted bool          // the request had a token
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s: the server answers %d %s", e.URL, e.Code, http.StatusText(e.Code))
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if e.Advice != "" {
		text += "; " + e.Advice
	}
	return text
}

// passing reports whether the same request may succeed later.
func (e *StatusError) passing() bool {
	return e.Code == http.StatusTooManyRequests || e.Code == http.StatusRequestTimeout || e.Code >= 500
}

// A request is one GET.
type request struct {
	url    string
	token  string
	header map[string]string
	// redirected, if not nil, receives the headers of answers that redirect.
	redirected func(http.Header)
}

// do sends a request and returns an answer with one of the wanted codes.
func (c *Client) do(ctx context.Context, r request, want ...int) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("%w: the URL cannot be used", ErrServer)
	}
	req.Header.Set("Accept-Encoding", "identity") // lengths and ranges are those of the file
	if c.Agent != "" {
		req.Header.Set("User-Agent", c.Agent)
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	client := http.Client{Transport: c.Transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if r.redirected != nil && next.Response != nil {
			r.redirected(next.Response.Header)
		}
		return checkRedirect(next, via)
	}}
	response, err := client.Do(req)
	if err != nil {
		return nil, explainTransport(req.URL, err)
	}
	for _, code := range want {
		if response.StatusCode == code {
			return response, nil
		}
	}
	defer response.Body.Close()
	return nil, statusError(req.URL, response, r.token != "")
}

// checkRedirect refuses redirects that lose encryption, and keeps secrets from other hosts.
func checkRedirect(next *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("%w: more than %d redirects", ErrServer, maxRedirects)
	}
	if next.URL.Scheme != schemeHTTPS && next.URL.Scheme != schemeHTTP {
		return fmt.Errorf("%w: it redirects to %s", ErrServer, limitedLine(next.URL.Scheme))
	}
	for _, before := range via {
		if before.URL.Scheme == schemeHTTPS && next.URL.Scheme != schemeHTTPS {
			return ErrDowngrade
		}
	}
	next.Header.Del("Referer") // the URL before may be signed
	if !sameOrigin(next.URL, via[0].URL) {
		next.Header.Del("Authorization")
	}
	return nil
}

// sameOrigin reports whether two URLs lead to the same server.
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host)
}

// explainTransport names the URL without its query, where the error of package http shows all of it.
func explainTransport(u *url.URL, err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("%s: %w", shownURL(u), err)
}

// final reports whether an error stays when the request is repeated.
func final(err error) bool {
	var status *StatusError
	var unknownAuthority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var dns *net.DNSError
	switch {
	case errors.As(err, &status):
		return !status.passing()
	case errors.As(err, &dns):
		return dns.IsNotFound
	}
	return errors.Is(err, ErrDowngrade) || errors.Is(err, errBegun) || errors.Is(err, ErrServer) || errors.As(err, &unknownAuthority) || errors.As(err, &hostname) || errors.As(err, &invalid)
}

// statusError describes an answer that is no success. Servers of hf: say more in headers.
func statusError(u *url.URL, response *http.Response, granted bool) error {
	e := &StatusError{URL: shownURL(u), Code: response.StatusCode, Reason: limitedLine(response.Header.Get("X-Error-Message")), granted: granted}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.Retry = time.Duration(min(seconds, 3600)) * time.Second
	}
	return e
}

// limitedLine returns the first part of a text from a server.
func limitedLine(text string) string {
	const limit = 300
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}

// json reads the answer of an API into v, and returns its headers.
func (c *Client) json(ctx context.Context, r request, v any) (header http.Header, err error) {
	err = c.retry(ctx, func() (err error) {
		header, err = c.jsonOnce(ctx, r, v)
		return err
	})
	return header, err
}

// retry repeats a small request that fails for a reason that may pass.
func (c *Client) retry(ctx context.Context, ask func() error) error {
	for attempt := 0; ; attempt++ {
		err := ask()
		if err == nil || final(err) || errors.Is(err, syscall.ECONNREFUSED) || ctx.Err() != nil || attempt == maxAttempts-1 {
			return cancelled(ctx, err)
		}
		if err := c.pause(ctx, attempt, err); err != nil {
			return err
		}
	}
}

func (c *Client) jsonOnce(ctx context.Context, r request, v any) (http.Header, error) {
	ctx, stop := context.WithTimeoutCause(ctx, c.stall(), errStalled)
	defer stop()
	response, err := c.do(ctx, r, http.StatusOK)
	if err != nil {
		return nil, cancelled(ctx, err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxJSON+1))
	shown := shownURL(response.Request.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", shown, cancelled(ctx, err))
	case len(data) > maxJSON:
		return nil, fmt.Errorf("%s: %w: it is longer than %d bytes", shown, ErrServer, maxJSON)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", shown, ErrServer, err)
	}
	return response.Header, nil
}

const (
	// maxAttempts is how often a request without any progress is made.
	maxAttempts = 6
	longestWait = 30 * time.Second
)

// errStalled is the cause of a request that took too long.
var errStalled = errors.New("the server has sent nothing for too long")

func (c *Client) stall() time.Duration {
	if c.Stall > 0 {
		return c.Stall
	}
	return defaultStall
}

// pause waits before the next attempt: longer after each one, and as long as the server asks.
func (c *Client) pause(ctx context.Context, attempt int, failed error) error {
	wait := min(time.Second<<attempt, longestWait)
	var status *StatusError
	if errors.As(failed, &status) {
		wait = max(wait, status.Retry)
	}
	if c.Pause != nil {
		return c.Pause(ctx, wait)
	}
	return ended.Sleep(ctx, wait)
}

// cancelled returns the cause of a context that has ended, and err otherwise.
func cancelled(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (c *Client) notify(format string, args ...any) {
	if c.Notify != nil {
		c.Notify(fmt.Sprintf(format, args...))
	}
}

// endpoint returns the server of hf: references without a slash at its end.
func (c *Client) endpoint() (string, error) {
	if c.Endpoint == "" {
		return DefaultEndpoint, nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != schemeHTTPS && u.Scheme != schemeHTTP {
		return "", fmt.Errorf("HF_ENDPOINT: %w: it must be a URL such as %s", ErrReference, DefaultEndpoint)
	}
	return strings.TrimRight(c.Endpoint, "/"), nil
}
