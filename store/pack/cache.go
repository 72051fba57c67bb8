package pack

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// ErrNoRoom reports that a pack does not fit into its cache or on the disk.
var ErrNoRoom = errors.New("not enough room")

const (
	// defaultCacheBytes and defaultCacheDivisor set the default limit of a cache: this many
	// bytes, but at most a third of the space that is free or used by the cache.
	defaultCacheBytes   = 32 << 30
	defaultCacheDivisor = 3
	// reserveBytes of the disk always stay free.
	reserveBytes = 256 << 20
	// keptDivisor: of the size that the user gives a cache, packs get the part that keys and values leave, at least
	// three quarters; a third more than a pack is enough for it.
	keptDivisor = 3
	// usageSuffix is the suffix of the file that records when a pack was last used.
	usageSuffix   = ".use"
	maxUsageBytes = 64 << 10
)

// CheckRoom returns an error if the disk of dir lacks the space for a pack of need bytes.
func CheckRoom(fsys vfs.FS, dir string, need int64) error {
	if free, known := vfs.FreeSpace(fsys, dir); known && need > free-reserveBytes {
		return fullDisk(dir, need, free, "choose another directory with -o")
	}
	return nil
}

// fullDisk returns the error of a disk that lacks the space for a pack.
func fullDisk(dir string, need, free int64, otherwise string) error {
	return fmt.Errorf("%w: the pack takes %s, and the disk of %s has %s free, of which %s stay free; free at least %s, or %s", ErrNoRoom,
		tiering.SizeText(need), dir, tiering.SizeText(free), tiering.SizeText(reserveBytes), tiering.AtLeastText(need+reserveBytes-free), otherwise)
}

// inCache is what the user can do if a cache has no room for a pack.
const inCache = "choose another directory with --cache-dir, or write a file elsewhere with llmrun import -o"

// Cache is a directory of packs that were imported on first use. Several processes and
// goroutines may use it at the same time.
type Cache struct {
	fsys  vfs.FS
	dir   string
	limit int64
	now   func() time.Time
}

// Cached describes a pack in a cache.
type Cached struct {
	Name   string
	Bytes  int64
	Source string    // path of the model when it was last used
	Used   time.Time // zero if unknown
}

// OpenCache opens a cache directory and creates it if necessary. limit is the maximum size
// of all packs in bytes; 0 means 32 GiB or a third of the free disk space, whichever is
// less. OpenCache removes the leftovers of killed imports. It returns
// an error that wraps vfs.ErrNotPrivate if other users may change the directory.
func OpenCache(fsys vfs.FS, dir string, limit int64) (*Cache, error) {
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, err
	}
	if err := vfs.CheckPrivate(fsys, dir); err != nil {
		return nil, err
	}
	c := &Cache{fsys: fsys, dir: dir, limit: limit, now: time.Now}
	return c, c.sweep()
}

// sweep removes temporary files and locks of dead processes, and usage records of removed
// packs.
func (c *Cache) sweep() error {
	files, err := c.fsys.ReadDir(c.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		name, _, temporary := strings.Cut(f.Name, vfs.TempMark)
		name, locked := strings.CutSuffix(name, lockSuffix)
		if pack, use := strings.CutSuffix(f.Name, usageSuffix); use {
			if _, err := c.fsys.Stat(c.path(pack)); errors.Is(err, fs.ErrNotExist) {
				c.removeQuietly(f.Name)
			}
		}
		if !temporary && !locked || !strings.HasSuffix(name, Suffix) {
			continue
		}
		lock, err := vfs.Lock(c.fsys, c.path(name+lockSuffix))
		if err != nil {
			continue // its writer is alive
		}
		if temporary && vfs.ProvesAbsence(lock) {
			c.removeQuietly(f.Name)
		}
		if err := lock.Close(); err != nil {
			return err
		}
	}
	return nil
}

// removeQuietly removes a file that does no harm if it stays.
func (c *Cache) removeQuietly(name string) { _ = c.fsys.Remove(c.path(name)) }

func (c *Cache) path(name string) string { return vfs.Join(c.dir, name) }

// Path returns the path of the pack of a source: that of the existing one, which may have
// another name in front because the source was renamed, or that of a new one. The path
// contains the version of the tile order, so that a program does not find packs that it
// cannot use.
func (c *Cache) Path(source string, f Fingerprint) (string, error) {
	suffix := NameSuffix(f)
	files, err := c.fsys.ReadDir(c.dir)
	if err != nil {
		return "", err
	}
	for _, file := range files {
		if !file.IsDir && strings.HasSuffix(file.Name, suffix) {
			return c.path(file.Name), nil
		}
	}
	return c.path(cleanName(source) + suffix), nil
}

// NameSuffix returns what the names of all packs of a source end in, which Path looks for.
func NameSuffix(f Fingerprint) string {
	return fmt.Sprintf("-%s-%d%s", f, tiled.LayoutVersion, Suffix)
}

// SampledPath returns the path of the pack that an older program made, which named it by a
// SampledFingerprint.
func (c *Cache) SampledPath(source string, f Fingerprint) string {
	return c.path(fmt.Sprintf("%s-%s%s", cleanName(source), f, Suffix))
}

// cleanName returns the name of a source without characters that file systems reject.
func cleanName(source string) string {
	clean := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) || r < ' ' {
			return '_'
		}
		return r
	}, strings.TrimSuffix(source, ".gguf"))
	const most = 100 // bytes, of the 255 that file systems permit with all that follows
	for len(clean) > most {
		_, n := utf8.DecodeLastRuneInString(clean)
		clean = clean[:len(clean)-n]
	}
	return clean
}

// usage is the content of the usage record of a pack.
type usage struct {
	Source string    `json:"source"`
	Used   time.Time `json:"used"`
}

// Use records that the pack at path was used for a model. The record need not survive a
// crash: a pack without a record counts as unused.
func (c *Cache) Use(path, source string) error {
	data, err := json.Marshal(usage{source, c.now().UTC().Truncate(time.Millisecond)})
	if err != nil {
		return err
	}
	f, err := c.fsys.Create(path + usageSuffix)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	return errors.Join(err, f.Close())
}

// List returns the packs, the most recently used first.
func (c *Cache) List() ([]Cached, error) {
	files, err := c.fsys.ReadDir(c.dir)
	if err != nil {
		return nil, err
	}
	var list []Cached
	for _, f := range files {
		if f.IsDir || !strings.HasSuffix(f.Name, Suffix) {
			continue
		}
		entry := Cached{Name: f.Name, Bytes: f.Size}
		var u usage
		// A missing or damaged record means that the pack is unused.
		if data, err := vfs.ReadFile(c.fsys, c.path(f.Name+usageSuffix), maxUsageBytes); err == nil && json.Unmarshal(data, &u) == nil {
			entry.Source, entry.Used = u.Source, u.Used
		}
		list = append(list, entry)
	}
	slices.SortFunc(list, func(a, b Cached) int {
		return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

// Remove deletes a pack by its name in List.
func (c *Cache) Remove(name string) error {
	if name != baseName(name) || !strings.HasSuffix(name, Suffix) {
		return fmt.Errorf("%q is not the name of a pack in the cache", name)
	}
	err := c.fsys.Remove(c.path(name))
	if err == nil {
		c.removeQuietly(name + usageSuffix)
	}
	return err
}

// MakeRoom removes the least recently used packs until a pack of need bytes fits. If it
// cannot fit, MakeRoom removes nothing and returns an error that wraps ErrNoRoom.
func (c *Cache) MakeRoom(need int64) error {
	r, err := c.room(need)
	if err != nil {
		return err
	}
	for _, p := range slices.Backward(r.packs) {
		if r.fits(need) {
			return nil
		}
		if err := c.Remove(p.Name); err != nil {
			continue // in use, on a system that cannot remove open files
		}
		r.total, r.free = r.total-p.Bytes, r.free+p.Bytes
	}
	if !r.fits(need) {
		return fmt.Errorf("%w: packs in %s are in use and could not be removed", ErrNoRoom, c.dir)
	}
	return nil
}

// CheckCache returns the error of MakeRoom for a pack that cannot fit into a cache, which need not exist yet. limit
// is that of OpenCache. CheckCache changes nothing.
func CheckCache(fsys vfs.FS, dir string, limit, need int64) error {
	_, err := (&Cache{fsys: fsys, dir: dir, limit: limit}).room(need)
	return err
}

// cacheRoom is the room of a cache.
type cacheRoom struct {
	packs       []Cached // as List returns them
	total       int64    // bytes of the packs
	limit, free int64    // of the cache, and of the disk
	known       bool     // free is known
}

// room returns the room of the cache, or an error that wraps ErrNoRoom if a pack of need bytes has none even if all
// others are removed.
func (c *Cache) room(need int64) (r cacheRoom, err error) {
	if r.packs, err = c.List(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	for _, p := range r.packs {
		r.total += p.Bytes
	}
	r.free, r.known = vfs.FreeSpaceFor(c.fsys, c.dir)
	r.limit = c.limit
	why := ""
	if r.limit == 0 {
		r.limit = defaultLimit(r.free+r.total, r.known)
		if why = ", the default"; r.limit < defaultCacheBytes {
			why = ", by default a third of the free disk"
		}
	}
	switch {
	case need > r.limit:
		return r, fmt.Errorf("%w: the pack takes %s, and the packs in %s may take %s%s; permit at least %s with --cache-size, or write a file with llmrun import -o", ErrNoRoom,
			tiering.SizeText(need), c.dir, tiering.SizeText(r.limit), why, tiering.AtLeastText(need+need/keptDivisor+1))
	case r.known && need > r.free+r.total-reserveBytes:
		return r, fullDisk(c.dir, need, r.free+r.total, inCache)
	}
	return r, nil
}

// fits reports whether a pack of need bytes fits beside the others.
func (r *cacheRoom) fits(need int64) bool {
	return r.total+need <= r.limit && (!r.known || need <= r.free-reserveBytes)
}

// defaultLimit returns the limit of a cache that may use available bytes of the disk, if
// known.
func defaultLimit(available int64, known bool) int64 {
	if known {
		return min(defaultCacheBytes, available/defaultCacheDivisor)
	}
	return defaultCacheBytes
}
