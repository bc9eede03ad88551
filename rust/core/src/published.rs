//! The snapshot of a store that readers get; the first read after a change makes a new snapshot.

use std::ops::DerefMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;

/// The latest snapshot of a store, and whether the store has changed since.
#[derive(Debug, Default)]
pub(crate) struct Published<T> {
    snapshot: ArcSwap<T>,
    /// Whether the store has changed since the latest snapshot. Set under the writer's lock.
    stale: AtomicBool,
}

impl<T> Published<T> {
    /// Marks the snapshot as stale if `changed` is true. The caller holds the writer's lock.
    pub(crate) fn outdated(&self, changed: bool) {
        self.stale.fetch_or(changed, Ordering::AcqRel);
    }

    /// Returns a snapshot that has every write from before this call. If the latest snapshot is
    /// stale, `lock` locks the writer and `make` makes a new snapshot of it.
    pub(crate) fn latest<W, G: DerefMut<Target = W>>(
        &self,
        lock: impl FnOnce() -> G,
        make: impl FnOnce(&mut W) -> T,
    ) -> Arc<T> {
        if self.stale.load(Ordering::Acquire) {
            let mut writer = lock();
            if self.stale.load(Ordering::Acquire) {
                self.snapshot.store(Arc::new(make(&mut writer)));
                // Only now, after the new snapshot is stored: a reader that finds the mark cleared
                // must find this snapshot.
                self.stale.store(false, Ordering::Release);
            }
        }
        self.snapshot.load_full()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn latest(published: &Published<u32>, writer: &Mutex<u32>) -> (u32, bool) {
        let mut made = false;
        let snapshot = published.latest(
            || writer.lock().expect("no thread panicked"),
            |writer| {
                made = true;
                *writer
            },
        );
        (*snapshot, made)
    }

    #[test]
    fn a_snapshot_is_made_when_somebody_looks_after_a_change_and_only_then() {
        let (published, writer) = (Published::default(), Mutex::new(0));
        assert_eq!(latest(&published, &writer), (0, false));
        for (value, changes) in [
            (1, &[true][..]),
            (2, &[true, false]),
            (3, &[false, true, true]),
        ] {
            *writer.lock().expect("no thread panicked") = value;
            for &changed in changes {
                published.outdated(changed);
            }
            assert_eq!(latest(&published, &writer), (value, true));
            published.outdated(false);
            assert_eq!(latest(&published, &writer), (value, false));
        }
    }

    /// A snapshot for a test, which tells when another snapshot replaces it whether it still counts
    /// as stale.
    #[derive(Default)]
    struct Replaced(Option<Arc<Published<Replaced>>>);

    impl Drop for Replaced {
        fn drop(&mut self) {
            if let Some(published) = &self.0 {
                let stale = published.stale.load(Ordering::Acquire);
                assert!(
                    stale,
                    "a reader would have been given the snapshot before it"
                );
            }
        }
    }

    #[test]
    fn nobody_is_told_that_nothing_changed_before_the_new_snapshot_is_there() {
        let published = Arc::new(Published::<Replaced>::default());
        let writer = Mutex::new(());
        let mut held = Some(published.clone());
        for _ in 0..2 {
            published.outdated(true);
            let snapshot = published.latest(
                || writer.lock().expect("no thread panicked"),
                |()| Replaced(held.take()),
            );
            drop(snapshot);
        }
    }
}
