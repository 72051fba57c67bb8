package hub

import (
	"context"
	"crypto/sha1" // the hash of git, which names small files
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math"
	"regexp"
	"strings"
)

// A Remote is a model on a server.
type Remote struct {
	Name   string // of the model here
	Source string // the reference
	// Arguments are those of pull besides Source with which an interrupted download continues, "" for none.
	Arguments string
	// Path is what to open, relative to the directory of the models: a file, or a directory of files.
	Path  string
	Files []RemoteFile
	// Smaller are smaller quantizations that the server has, the largest first.
	Smaller []Choice
	// Note says what was chosen among several, "" if there was no choice.
	Note string
}

// A RemoteFile is a file of a Remote.
type RemoteFile struct {
	Path   string // relative to the directory of the models, with slashes
	URL    string
	Size   int64
	Digest string // "sha256:…", "git:…", or "" where none is published
	// ETag and LastModified tell whether a file without a digest is still the same.
	ETag, LastModified string

	token string
}

// A Choice is a quantization that can be downloaded.
type Choice struct {
	Label string // such as Q4_K_M
	Bytes int64
}

// Bytes returns the size of all files.
func (r *Remote) Bytes() (total int64) {
	for _, f := range r.Files {
		total += f.Size
	}
	return total
}

// Find asks the server what a reference means.
func (c *Client) Find(ctx context.Context, ref Reference) (*Remote, error) {
	find := map[string]func(context.Context, Reference) (*Remote, error){
		schemeHF: c.findHF, schemeOllama: c.findOllama, schemeHTTP: c.findURL, schemeHTTPS: c.findURL,
	}[ref.scheme]
	if find == nil {
		return nil, fmt.Errorf("%w: it is empty", ErrReference)
	}
	r, err := find(ctx, ref)
	if err != nil {
		return nil, err
	}
	r.Source = ref.String()
	return r, r.check()
}

// maxFiles and maxFileBytes bound what a server may ask to be stored.
const (
	maxFiles     = 2048
	maxFileBytes = 1 << 44
)

// check refuses names, sizes and hashes that cannot be used, whatever server they are from.
func (r *Remote) check() error {
	if err := CheckName(r.Name); err != nil {
		return err
	}
	if len(r.Files) == 0 || len(r.Files) > maxFiles {
		return fmt.Errorf("%s: %w: the model has %d files", r.Source, ErrServer, len(r.Files))
	}
	seen := map[string]bool{}
	total := int64(0)
	for _, f := range r.Files {
		if err := checkPath(f.Path); err != nil {
			return fmt.Errorf("%s: %w", r.Source, err)
		}
		if f.Size <= 0 || f.Size > maxFileBytes || total > math.MaxInt64-f.Size {
			return fmt.Errorf("%s: %w: %s has %d bytes", r.Source, ErrServer, f.Path, f.Size)
		}
		total += f.Size
		if f.Digest != "" {
			if _, err := newDigest(f.Digest, f.Size); err != nil {
				return fmt.Errorf("%s: %s: %w", r.Source, f.Path, err)
			}
		}
		if lower := strings.ToLower(f.Path); seen[lower] { // some file systems do not distinguish case
			return fmt.Errorf("%s: %w: %s appears twice", r.Source, ErrServer, f.Path)
		} else {
			seen[lower] = true
		}
	}
	return nil
}

// Rename gives the model another name here. Files of a directory keep their names in it.
func (r *Remote) Rename(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	for i := range r.Files {
		r.Files[i].Path = renamed(r.Files[i].Path, r.Name, name)
	}
	r.Path, r.Name = renamed(r.Path, r.Name, name), name
	return nil
}

// From is what pull takes.
func (r *Remote) From() string { return withArguments(r.Source, r.Arguments) }

func withArguments(source, arguments string) string {
	return strings.TrimSpace(source + " " + arguments)
}

// renamed replaces a name at the beginning of a path.
func renamed(path, from, to string) string {
	if rest, ok := strings.CutPrefix(path, from); ok {
		return to + rest
	}
	return path
}

// ErrDigest reports a download that is not what was published.
var ErrDigest = errors.New("the download is damaged, or the server has another file than it published")

var hexDigest = regexp.MustCompile(`^(?:sha256:[0-9a-f]{64}|git:[0-9a-f]{40})$`)

// digestSHA256 begins a digest that is a SHA-256.
const digestSHA256 = "sha256:"

// newDigest returns the hash for a published digest.
func newDigest(digest string, size int64) (hash.Hash, error) {
	if !hexDigest.MatchString(digest) {
		return nil, fmt.Errorf("%w: %q is no hash that can be checked", ErrServer, limitedLine(digest))
	}
	if strings.HasPrefix(digest, digestSHA256) {
		return sha256.New(), nil
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", size) // as git hashes a file
	return h, nil
}

// sumOf formats the result of a hash as the digest does.
func sumOf(digest string, h hash.Hash) string {
	kind, _, _ := strings.Cut(digest, ":")
	return kind + ":" + hex.EncodeToString(h.Sum(nil))
}
