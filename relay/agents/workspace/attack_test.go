package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drawbridge/relay/agents/workspace"
)

// everything does all that the relay ever does with a workspace of an agent. Errors are fine: what counts is what does not happen.
func everything(t *testing.T, w *world, s *workspace.Space) {
	t.Helper()
	ctx := t.Context()
	if _, err := s.State(ctx); err != nil {
		t.Logf("state: %v", err)
	}
	if _, err := s.Evidence(ctx, ""); err != nil {
		t.Logf("evidence: %v", err)
	}
	for _, all := range []bool{false, true} {
		if _, err := s.Fetch(ctx, all); err != nil {
			t.Logf("fetch: %v", err)
		}
	}
	if err := s.Put(ctx, "settings/mcp.json", []byte("{}")); err != nil {
		t.Logf("put: %v", err)
	}
	if sub, err := s.Below("below/here"); err == nil {
		must(t, sub.File.Close())
	}
	w.open()
	if _, err := w.store.List(ctx); err != nil {
		t.Errorf("list: %v", err)
	}
	// One more file, so that there is something to lose.
	more := filepath.Join(s.Dir(), "more")
	must(t, os.WriteFile(more, nil, 0o600))
	var loss *workspace.Loss
	if err := w.store.Remove(ctx, s.Agent(), ""); !errors.As(err, &loss) {
		t.Errorf("remove: %v", err)
	}
	must(t, os.Remove(more))
}

// TestAgentsSettingsStartNothing: programs that an agent names in its repository, in its home or in its tree. In each case a
// plain git in the tree, which is what the control runs, starts the program.
func TestAgentsSettingsStartNothing(t *testing.T) {
	t.Parallel()
	const ext = `git config protocol.ext.allow always; `
	for _, c := range some([]struct{ name, plant, control string }{
		{"filter.clean", `echo '* filter=evil' > .gitattributes; git config filter.evil.clean $P; touch README`, `git status`},
		{"filter.clean by info/attributes", `echo '* filter=evil' > .git/info/attributes; git config filter.evil.clean $P; touch README`, `git status`},
		{"filter.clean by core.attributesFile", `echo '* filter=evil' > ../attributes; git config core.attributesFile $PWD/../attributes; git config filter.evil.clean $P; touch README`, `git status`},
		{"filter.process", `echo '* filter=evil' > .gitattributes; git config filter.evil.process $P; git config filter.evil.required true; touch README`, `git status || true`},
		{"filter.smudge", `echo '* filter=evil' > .gitattributes; git config filter.evil.smudge $P`, `rm README; git checkout -q -- README`},
		{"committed attributes", `echo '* filter=evil' > .gitattributes; git add -A; git commit -qm x; git config filter.evil.clean $P; git config filter.evil.smudge $P; touch README`, `git status; rm README; git checkout -q -- README`},
		{"include.path", `git config include.path $PWD/../evil; git config -f ../evil core.fsmonitor $P`, `git status`},
		{"includeIf", `git config includeIf.gitdir:**.path $PWD/../evil; git config -f ../evil core.fsmonitor $P`, `git status`},
		{"extensions.worktreeConfig", `git config extensions.worktreeConfig true; git config -f .git/config.worktree core.fsmonitor $P`, `git status`},
		{"core.fsmonitor", `git config core.fsmonitor $P`, `git status`},
		{"core.fsmonitor in the home", `git config -f ../.gitconfig core.fsmonitor $P`, `git status`},
		{"core.sshCommand", `git config core.sshCommand $P; git config remote.origin.url ssh://localhost/x`, `git fetch origin || true`},
		{"core.gitProxy", `git config core.gitProxy $P; git config remote.origin.url git://localhost/x`, `git fetch origin || true`},
		{"core.hooksPath", `mkdir ../hooks; cp $P ../hooks/reference-transaction; git config core.hooksPath $PWD/../hooks`, `git update-ref refs/heads/x HEAD`},
		{"hooks", `mkdir -p .git/hooks; for h in reference-transaction post-checkout pre-auto-gc post-index-change post-update; do cp $P .git/hooks/$h; done`, `git update-ref refs/heads/x HEAD`},
		{"core.pager", `git config core.pager "$P; cat >/dev/null"; git config pager.status true`, `script -qec 'git log' /dev/null </dev/null`},
		{"core.editor", `git config core.editor $P`, `git commit -q --amend || true`},
		{"core.askPass", `git config core.askPass $P`, `printf 'protocol=https\nhost=x\n\n' | GIT_TERMINAL_PROMPT=1 git credential fill || true`},
		{"core.alternateRefsCommand", `git config core.alternateRefsCommand $P; echo $CLONE/.git/objects > .git/objects/info/alternates`, `git fetch -q $CLONE other`},
		{"credential.helper", `git config credential.helper $P`, `printf 'protocol=https\nhost=x\n\n' | git credential fill || true`},
		{"diff.external", `git config diff.external $P; echo x >> README`, `git diff`},
		{"diff driver", `echo '* diff=evil' > .gitattributes; git config diff.evil.command $P; echo x >> README`, `git diff`},
		{"textconv", `echo '* diff=evil' > .gitattributes; git config diff.evil.textconv $P; echo x >> README`, `git diff`},
		{"textconv of a commit", `echo '* diff=evil' > .gitattributes; git add -A; git commit -qm x; git config diff.evil.textconv $P; echo x >> README; git commit -qam x`, `git log -p`},
		{"merge driver", `echo '* merge=evil' > .git/info/attributes; git config merge.evil.driver $P; git checkout -qb m; echo a > README; git commit -qam a; git checkout -q drawbridge/ada; echo b > README; git commit -qam b`, `git merge -q m || true`},
		{"alias", `git config alias.evidence "!$P"`, `git evidence`},
		{"gpg.program", `git config gpg.program $P; git config log.showSignature true
			git update-ref HEAD $(git cat-file commit HEAD | sed 's/^committer.*/&\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----/' | git hash-object -t commit -w --stdin)`, `git log -1 || true`},
		{"uploadpack.packObjectsHook in the home", `git commit -q --allow-empty -m x; git config -f ../.gitconfig uploadpack.packObjectsHook $P`, `git clone -q --no-local file://$PWD ../naive || true`},
		{"remote.uploadpack", `git config remote.origin.url $PWD; git config remote.origin.uploadpack $P`, `git fetch origin || true`},
		{"url.insteadOf", ext + `git config "url.ext::$P .insteadOf" $CLONE`, `git fetch $CLONE || true`},
		{"protocol.ext", ext + `git config remote.origin.url "ext::$P"`, `git fetch origin || true`},
		{"partial clone", ext + `git config remote.origin.url "ext::$P"; git config remote.origin.promisor true; git config core.repositoryformatversion 1; git config extensions.partialClone origin; git commit -q --allow-empty -m x; rm .git/objects/$(git rev-parse HEAD | sed 's,^..,&/,')`, `git log || true`},
		{"settings of a submodule", `git init -q sub; git -C sub commit -q --allow-empty -m x; git add sub 2>/dev/null; git commit -qm sub; git -C sub config core.fsmonitor $P`, `git status`},
		{"submodule.update", `git init -q ../subsource; git -C ../subsource commit -q --allow-empty -m x; git -c protocol.file.allow=always submodule --quiet add $PWD/../subsource sub; git commit -qm sub; git config submodule.sub.update "!$P"; git config protocol.file.allow always; git -C sub commit -q --allow-empty -m y`, `git submodule update --force || true`},
		{"trailer", `git config trailer.evil.cmd $P`, `echo x | git interpret-trailers --trailer evil`},
		{"another .git", `git config core.fsmonitor $P; mv .git ../real; cp -r ../real .git; rm -rf ../real`, `git status`},
		{"link at .git", `git config core.fsmonitor $P; mv .git ../real; ln -s ../real .git`, `git status`},
		{"file at .git", `git config core.fsmonitor $P; mv .git ../real; echo 'gitdir: ../real' > .git`, `git status`},
		{"commondir", `git config core.fsmonitor $P; cp -r .git ../common; echo ../../common > .git/commondir`, `git status`},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.make("ada")
			ran := filepath.Join(w.dir, "ran")
			payload := filepath.Join(w.dir, "payload")
			must(t, os.WriteFile(payload, []byte("#!/bin/sh\necho ran >> "+ran+"\n"), 0o700))
			prefix := "P=" + payload + " CLONE=" + w.clone + "; "
			sh(t, s.Dir(), prefix+c.plant)
			must(t, os.RemoveAll(ran))
			everything(t, w, s)
			if exists(ran) {
				t.Fatal("the agent's program ran")
			}
			if out := sh(t, s.Dir(), prefix+c.control); !exists(ran) {
				t.Fatalf("the control did not run the program, so that this test shows nothing: %s", out)
			}
		})
	}
}

// TestAgentsDataDoesNotLie: what an agent can write into its repository so that git says something else than what is there.
func TestAgentsDataDoesNotLie(t *testing.T) {
	t.Parallel()
	subject := func(t *testing.T, s *workspace.Space) string {
		e, err := s.Evidence(t.Context(), "")
		must(t, err)
		if len(e.Commits) == 0 {
			return ""
		}
		return e.Commits[0].Subject
	}
	dirty := func(t *testing.T, s *workspace.Space) string {
		if state(t, s).Clean() {
			return "clean"
		}
		return "dirty"
	}
	for _, c := range some([]struct {
		name, plant string
		// naive is what a plain git says; it has to be the lie.
		naive, lie string
		look       func(*testing.T, *workspace.Space) string
		truth      string
	}{
		{"replace ref", `git commit -q --allow-empty -m bad; bad=$(git rev-parse HEAD); git commit -q --amend --allow-empty -m good; git replace $bad HEAD; git reset -q --soft $bad`,
			`git log -1 --format=%s`, "good", subject, "bad"},
		{"graft", `git commit -q --allow-empty -m bad; git commit -q --allow-empty -m good; git rev-parse HEAD > .git/info/grafts; git rev-parse HEAD~1 >/dev/null 2>&1 || true`,
			`git rev-list --count HEAD 2>/dev/null`, "1", func(t *testing.T, s *workspace.Space) string {
				e, err := s.Evidence(t.Context(), "")
				must(t, err)
				return map[bool]string{true: "2 commits"}[e.Total == 2]
			}, "2 commits"},
		{"assume unchanged", `git update-index --assume-unchanged README; echo x >> README`, `git status --porcelain`, "", dirty, "dirty"},
		{"fsmonitor that saw nothing", `printf '#!/bin/sh\necho token\n' > ../monitor; chmod +x ../monitor; git config core.fsmonitor $PWD/../monitor; git status >/dev/null; git status > /dev/null; touch -d @1 README; git status >/dev/null; echo x >> README`,
			`git status --porcelain`, "", dirty, "dirty"},
		{"info/exclude", `echo '*' > .git/info/exclude; echo x > new`, `git status --porcelain`, "", dirty, "dirty"},
		{"core.excludesFile", `echo '*' > ../excludes; git config core.excludesFile $PWD/../excludes; echo x > new`, `git status --porcelain`, "", dirty, "dirty"},
		{"status.showUntrackedFiles", `git config status.showUntrackedFiles no; echo x > new`, `git status --porcelain`, "", dirty, "dirty"},
		{"core.worktree", `mkdir ../other; cp README ../other; git config core.worktree $PWD/../other; echo x >> README`, `git status --porcelain`, "", dirty, "dirty"},
		{"core.fileMode", `git config core.fileMode false; chmod +x README`, `git status --porcelain`, "", dirty, "dirty"},
		{"ignored submodule", `git init -q sub; git -C sub commit -q --allow-empty -m x; git add sub 2>/dev/null; git commit -qm sub; git config submodule.sub.ignore all; git config diff.ignoreSubmodules all; echo x > sub/x`,
			`git status --porcelain`, "", dirty, "dirty"},
		{"filter that cleans", `printf '#!/bin/sh\ngit show HEAD:README\n' > ../clean; chmod +x ../clean; git config filter.f.clean $PWD/../clean; echo 'README filter=f' > .git/info/attributes; printf 'HELLO\nmore\n' > README`,
			`git status --porcelain`, "", dirty, "dirty"},
		{"mail map", `git commit -q --allow-empty -m real; echo 'x <x> <p@example.com>' > .mailmap; git config log.mailmap true; git config format.pretty 'format:fake'`,
			`git log -1`, "fake", subject, "real"},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.make("ada")
			sh(t, s.Dir(), c.plant)
			if said := sh(t, s.Dir(), c.naive); said != c.lie {
				t.Fatalf("the control says %q instead of %q, so that this test shows nothing", said, c.lie)
			}
			if got := c.look(t, s); got != c.truth {
				t.Errorf("got %q, want %q", got, c.truth)
			}
		})
	}
}

// TestAlternatesLeadNowhere: an agent cannot have the relay read a repository that the agent itself may not read.
func TestAlternatesLeadNowhere(t *testing.T) {
	t.Parallel()
	for _, c := range some([]struct{ name, plant string }{
		{"alternates", `echo $SECRET/.git/objects > .git/objects/info/alternates`},
		{"http alternates", `echo $SECRET/.git/objects > .git/objects/info/alternates; cp .git/objects/info/alternates .git/objects/info/http-alternates`},
		{"link at objects", `cp -r $SECRET/.git/objects/. .git/objects 2>/dev/null; mv .git/objects $SECRET/.git/both; ln -s $SECRET/.git/both .git/objects`},
		{"link at pack", `rm -rf .git/objects/pack.old; cp -rn .git/objects/pack/. $SECRET/.git/objects/pack/; rm -rf .git/objects/pack; ln -s $SECRET/.git/objects/pack .git/objects/pack`},
		{"link at one pack", `for p in $SECRET/.git/objects/pack/*; do ln -s $p .git/objects/pack/; done`},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.make("ada")
			secret := filepath.Join(w.dir, "secret")
			must(t, os.MkdirAll(secret, 0o700))
			id := sh(t, secret, `git init -q; echo secret > s; git add s; git commit -qm secret; git gc -q; git rev-parse HEAD`)
			sh(t, s.Dir(), "SECRET="+secret+"; "+c.plant+"; git update-ref refs/heads/drawbridge/ada "+id)
			everything(t, w, s)
			if out, err := try(t, w.clone, "git", "cat-file", "-e", id); err == nil {
				t.Errorf("the secret commit came into the clone: %s", out)
			}
			if naive, err := try(t, w.clone, "git", "fetch", "-q", s.Dir(), "drawbridge/ada"); err != nil {
				t.Fatalf("the control did not fetch it, so that this test shows nothing: %s", naive)
			}
			git(t, w.clone, "cat-file", "-e", id)
		})
	}
}

// TestHostileObjectsStayOut: commits that would harm the person who checks them out do not reach the clone.
func TestHostileObjectsStayOut(t *testing.T) {
	t.Parallel()
	tree := func(entry string) string {
		return `b=$(echo x | git hash-object -w --stdin); e=$(printf '` + entry + `' | tr N '\000'; echo $b | sed 's/../\\x&/g' >/dev/null)
			printf '` + entry + `\0' > ../t; printf "$(echo $b | sed 's/../\\x&/g')" >> ../t
			t=$(git hash-object --literally -t tree -w ../t); git update-ref HEAD $(git commit-tree -p HEAD -m x $t)`
	}
	for _, c := range some([]struct{ name, plant string }{
		{"a file in .git", tree("100644 .git")},
		{"a file in .GIT", tree("100644 .GIT")},
		{"a file above", tree("100644 ..")},
		{"a link at .gitmodules", tree("120000 .gitmodules")},
		{"a slash in a name", tree("100644 a/b")},
		{"a submodule with an option for its address", `printf '[submodule "x"]\n\tpath = x\n\turl = -u./payload\n' > .gitmodules; git add .gitmodules; git commit -qm x`},
		{"a submodule with a name that leads out", `printf '[submodule "../../x"]\n\tpath = x\n\turl = https://example.com\n' > .gitmodules; git add .gitmodules; git commit -qm x`},
	}) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.make("ada")
			run(t, s.Dir(), "bash", "-ec", c.plant)
			tip := git(t, s.Dir(), "rev-parse", "HEAD")
			f, err := s.Fetch(t.Context(), true)
			if err == nil || !strings.Contains(err.Error(), "stay in the workspace") {
				t.Errorf("fetch: %v %+v", err, f)
			}
			if out, err := try(t, w.clone, "git", "rev-parse", "-q", "--verify", "drawbridge/ada"); err == nil {
				t.Errorf("the branch is there: %s", out)
			}
			if got := state(t, s); got.Unfetched != 1 {
				t.Errorf("state: %+v", got)
			}
			git(t, w.clone, "-c", "fetch.fsckObjects=false", "-c", "transfer.fsckObjects=false", "fetch", "-q", s.Dir(), "drawbridge/ada")
			if git(t, w.clone, "rev-parse", "FETCH_HEAD") != tip {
				t.Fatal("the control did not fetch it, so that this test shows nothing")
			}
		})
	}
}

// opens makes sure that git waits for the other end of a FIFO: only then it can be opened for writing without waiting.
func opens(t *testing.T, dir, path string, args []string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = try(t, dir, append([]string{"git"}, args...)...)
	}()
	opened := false
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			opened = true
			must(t, unix.Close(fd)) // git reads the end, and goes on
		}
		select {
		case <-done:
			if !opened {
				t.Fatal("the control did not open it, so that this test shows nothing")
			}
			return
		case <-tick.C:
		}
	}
}

// TestDevices: a device in the tree is not read.
func TestDevices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.make("ada")
	path := filepath.Join(s.Dir(), "README")
	must(t, os.Remove(path))
	if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))); err != nil {
		t.Logf("without root there is a link to the device: %v", err)
		must(t, os.Symlink("/dev/zero", path))
	}
	if got := state(t, s); got.Modified != 1 {
		t.Errorf("state: %+v", got)
	}
}
