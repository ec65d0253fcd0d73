package config

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"reflect"
	"time"

	"drawbridge/internal/yamlconf"
	"drawbridge/policy"

	"github.com/fsnotify/fsnotify"
)

const (
	defaultDebounce = 200 * time.Millisecond
	defaultRecheck  = 30 * time.Second
)

// WatchOptions is what WatchAllowlist needs. The callbacks run one at a time on
// the goroutine that called WatchAllowlist.
type WatchOptions struct {
	Path string
	// Current is what the caller loaded already. It is compared at the start, so that
	// a change between loading and watching is not lost and none is made up.
	Current policy.Rules
	// Debounce is how long the file must be quiet before it is read, so that a file
	// that is being written is not read in halves. Default 200ms.
	Debounce time.Duration
	// Recheck is how often the file is read although nothing was reported, because
	// network file systems report nothing. Default 30s.
	Recheck time.Duration
	// Check, when not nil, finds problems that the file alone does not show, such
	// as an unknown relay. A file with such a problem counts as broken.
	Check func(policy.Rules) []Problem
	// OnChange receives the whole new rules. It is also called when a broken file
	// became good again.
	OnChange func(policy.Rules)
	// OnBroken is called once for each distinct broken content, a missing file
	// included. What was loaded before stays in force.
	OnBroken func([]Problem)
}

// WatchAllowlist reads the allowlist again whenever its file changes, is replaced
// or is swapped behind a symbolic link, until ctx ends; then it returns nil. It
// blocks: the caller runs it in a goroutine and waits for it. The error says that
// the folder cannot be watched.
func WatchAllowlist(ctx context.Context, o WatchOptions) error {
	if o.Debounce <= 0 {
		o.Debounce = defaultDebounce
	}
	if o.Recheck <= 0 {
		o.Recheck = defaultRecheck
	}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch allowlist: %w", err)
	}
	defer notify.Close()
	// The folder, not the file: editors and deployments replace files, and a watch
	// on the file would stay with the one that is gone.
	if err := notify.Add(filepath.Dir(o.Path)); err != nil {
		return fmt.Errorf("watch allowlist folder %q: %w", filepath.Dir(o.Path), err)
	}
	w := watch{WatchOptions: o, notify: notify}
	w.start()
	return w.run(ctx)
}

// watch remembers which content was seen last, and whether it was broken.
type watch struct {
	WatchOptions
	notify *fsnotify.Watcher
	seen   [sha256.Size]byte
	broken bool
	rules  policy.Rules
}

func (w *watch) run(ctx context.Context) error {
	recheck := time.NewTicker(w.Recheck)
	defer recheck.Stop()
	quiet := time.NewTimer(w.Debounce)
	quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-w.notify.Events:
			if !ok {
				return fmt.Errorf("watch allowlist: the watch on %q ended", filepath.Dir(w.Path))
			}
			if w.concerns(event) {
				quiet.Reset(w.Debounce)
			}
		case <-w.notify.Errors:
			// Events were dropped; what they said is in the file.
			quiet.Reset(w.Debounce)
		case <-quiet.C:
			w.check()
		case <-recheck.C:
			w.check()
		}
	}
}

// concerns reports whether an event may mean a changed allowlist: a file of its
// name was written or got another mode, or any file came or went, because that may
// be the symbolic link on the way to it. Mere writes to other files are not: the
// database may lie in the same folder.
func (w *watch) concerns(event fsnotify.Event) bool {
	if event.Has(fsnotify.Create) || event.Has(fsnotify.Rename) || event.Has(fsnotify.Remove) {
		return true
	}
	return (event.Has(fsnotify.Write) || event.Has(fsnotify.Chmod)) && filepath.Base(event.Name) == filepath.Base(w.target())
}

// target is the file behind all symbolic links, or the path itself.
func (w *watch) target() string {
	if target, err := filepath.EvalSymlinks(w.Path); err == nil {
		return target
	}
	return w.Path
}

// start compares the file with what the caller has.
func (w *watch) start() {
	w.rules = w.Current
	rules, problems := w.read()
	if len(problems) > 0 || !reflect.DeepEqual(rules, w.Current) {
		w.apply(rules, problems)
	}
}

// check reads the file and applies it when its content is another one.
func (w *watch) check() {
	before := w.seen
	rules, problems := w.read()
	if w.seen != before {
		w.apply(rules, problems)
	}
}

func (w *watch) apply(rules policy.Rules, problems []Problem) {
	if len(problems) > 0 {
		w.broken = true
		if w.OnBroken != nil {
			w.OnBroken(problems)
		}
		return
	}
	if !w.broken && reflect.DeepEqual(rules, w.rules) {
		return
	}
	w.broken, w.rules = false, rules
	if w.OnChange != nil {
		w.OnChange(rules)
	}
}

// read loads the file, remembers its content and watches where it lies now.
func (w *watch) read() (policy.Rules, []Problem) {
	// Adding a folder again is harmless, and needed when it was itself replaced. A
	// failure leaves the recheck.
	_ = w.notify.Add(filepath.Dir(w.Path))
	_ = w.notify.Add(filepath.Dir(w.target()))
	src, problem := open(w.Path)
	if problem != nil {
		w.seen = sha256.Sum256([]byte("unreadable: " + problem.Reason))
		return policy.Rules{}, []yamlconf.Problem{*problem}
	}
	w.seen = sha256.Sum256(src.Data)
	rules, problems := ParseAllowlist(src)
	if len(problems) == 0 && w.Check != nil {
		problems = w.Check(rules)
	}
	return rules, problems
}
