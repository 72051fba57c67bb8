package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// findURL finds a GGUF file or a pack at a URL, with all parts if it is a part of a split one.
func (c *Client) findURL(ctx context.Context, ref Reference) (*Remote, error) {
	base := path.Base(ref.url.Path)
	name := stem(base)
	if name == base || strings.HasSuffix(base, ".safetensors") {
		return nil, fmt.Errorf("%s: %w: the address does not end in .gguf or %s; a model of several files is pulled as hf:OWNER/REPO", ref, ErrReference, packSuffix)
	}
	r := &Remote{Name: name, Path: base}
	urls := []string{ref.url.String()}
	if part := partName.FindStringSubmatch(base); part != nil {
		urls = partURLs(ref.url, part)
		if len(urls) == 0 || len(urls) > maxFiles {
			return nil, fmt.Errorf("%s: %w: %s of %s is no part of a file", ref, ErrReference, part[2], part[3])
		}
		r.Path = partPath(name, 1, len(urls))
	}
	for i, address := range urls {
		f, err := c.probe(ctx, address)
		if err != nil {
			return nil, err
		}
		f.Path = base
		if len(urls) > 1 {
			f.Path = partPath(name, i+1, len(urls))
		}
		r.Files = append(r.Files, f)
	}
	return r, nil
}

// partPath returns the name of a part of a split file.
func partPath(name string, part, of int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", name, part, of)
}

// partURLs returns the addresses of all parts of a split file, given that of one.
func partURLs(u *url.URL, part []string) (urls []string) {
	count, _ := strconv.Atoi(part[3]) // five digits
	if count > maxFiles {
		return nil
	}
	for i := 1; i <= count; i++ {
		other := *u
		other.Path, other.RawPath = path.Join(path.Dir(u.Path), partPath(part[1], i, count)), ""
		urls = append(urls, other.String())
	}
	return urls
}

// probe asks for the size of a file and for what identifies its content.
func (c *Client) probe(ctx context.Context, address string) (f RemoteFile, err error) {
	err = c.retry(ctx, func() (err error) {
		f, err = c.probeOnce(ctx, address)
		return err
	})
	return f, err
}

func (c *Client) probeOnce(ctx context.Context, address string) (f RemoteFile, err error) {
	ctx, stop := context.WithTimeoutCause(ctx, c.stall(), errStalled)
	defer stop()
	f.URL = address
	ask := request{url: address, header: map[string]string{"Range": "bytes=0-0"}, redirected: func(h http.Header) {
		// Servers of hf: publish the hash of a file where they redirect to its content.
		if sum := strings.Trim(h.Get("X-Linked-Etag"), `"`); sha256Hex.MatchString(sum) {
			f.Digest = "sha256:" + sum
		}
	}}
	response, err := c.do(ctx, ask, http.StatusPartialContent, http.StatusOK)
	if err != nil {
		return f, cancelled(ctx, err)
	}
	defer response.Body.Close()
	shown := shownURL(response.Request.URL)
	if kind := response.Header.Get("Content-Type"); strings.HasPrefix(kind, "text/html") {
		return f, fmt.Errorf("%s: %w: a web page and no model; copy the address of the file itself", shown, ErrServer)
	}
	f.ETag, f.LastModified = strongETag(response.Header), response.Header.Get("Last-Modified")
	f.Size = response.ContentLength
	if response.StatusCode == http.StatusPartialContent {
		at, err := parseContentRange(response.Header.Get("Content-Range"))
		if err != nil {
			return f, fmt.Errorf("%s: %w", shown, err)
		}
		f.Size = at.total
	}
	if f.Size <= 0 {
		return f, fmt.Errorf("%s: %w: it does not say how long the file is", shown, ErrServer)
	}
	return f, nil
}

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

// strongETag returns the ETag of an answer, "" if it is weak: equal weak tags do not mean equal bytes.
func strongETag(h http.Header) string {
	if tag := h.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	return ""
}

// A contentRange is the header of that name.
type contentRange struct{ first, last, total int64 } // total is -1 where it is not said

var contentRangeText = regexp.MustCompile(`^bytes (\d+)-(\d+)/(\d+|\*)$`)

// errRange reports a range that is none.
var errRange = errors.New("Content-Range is malformed")

// parseContentRange parses "bytes 0-99/1000".
func parseContentRange(text string) (r contentRange, err error) {
	parts := contentRangeText.FindStringSubmatch(text)
	if parts == nil {
		return r, fmt.Errorf("%w: %w: %q", ErrServer, errRange, limitedLine(text))
	}
	number := func(s string) int64 {
		n, failed := strconv.ParseInt(s, 10, 64)
		err = errors.Join(err, failed)
		return n
	}
	r = contentRange{first: number(parts[1]), last: number(parts[2]), total: -1}
	if parts[3] != "*" {
		r.total = number(parts[3])
	}
	if err != nil || r.last < r.first || r.total >= 0 && r.last >= r.total {
		return r, fmt.Errorf("%w: %w: %q", ErrServer, errRange, limitedLine(text))
	}
	return r, nil
}
