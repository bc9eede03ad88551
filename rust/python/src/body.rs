//! The Python classes `BodyPool` and `BodyBuffer`: memory of large bodies, which is used again. All
//! unsafe code of the crate is in this module.
//!
//! The first write to new memory costs more than copying the bytes, because the system provides the
//! memory page by page. The pool keeps memory that was written before.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::raw::c_int;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubextend_core::node::Body;
use pyo3::exceptions::{PyBufferError, PyMemoryError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

/// The fewest bytes of a response in pooled memory. Smaller responses are bytes objects: allocators
/// keep memory of that size themselves.
const SMALLEST_POOLED: usize = 1 << 20;

/// How many buffers are taken from a pool before the pool frees memory that was not taken
/// meanwhile.
const IDLE_TAKES: u64 = 64;

/// An allocated block of memory that is written through raw pointers.
///
/// No Rust reference to the content exists while Python may write to the memory: see
/// `PyBodyBuffer::seal`.
struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a `Memory` owns what `start` points to, and hands out no access by itself.
unsafe impl Send for Memory {}
// SAFETY: as above; readers and writers are kept apart by `PyBodyBuffer`.
unsafe impl Sync for Memory {}

impl Memory {
    /// Allocates at least `size` bytes of zeros; None if the system does not have so much memory.
    fn zeroed(size: usize) -> Option<Self> {
        // Somewhat more than `size`, so that the next body, a few bytes longer, fits as well.
        let roomy = size.checked_add(size / 16 + 1)?;
        let layout = Layout::array::<u8>(roomy.checked_next_multiple_of(4096)?).ok()?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { start, layout })
    }

    fn capacity(&self) -> usize {
        self.layout.size()
    }

    /// Whether a body of this size may use this memory: the body fits, and leaves little of it
    /// unused.
    fn suits(&self, size: usize) -> bool {
        // As much below as new memory has above, so that bodies of nearly one size share it.
        let most = size.saturating_add(size / 8).saturating_add(2 * 4096);
        (size..=most).contains(&self.capacity())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `start` came from the allocator with this layout, and goes back once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// The state of a pool, shared by its buffers.
struct Shared {
    state: Mutex<Idle>,
    max_idle_bytes: usize,
}

/// The memory of a pool that is not in use; the longest unused comes first.
#[derive(Default)]
struct Idle {
    memory: VecDeque<(u64, Memory)>,
    bytes: usize,
    takes: u64,
}

impl Shared {
    fn take(self: &Arc<Self>, size: usize) -> Option<Loan> {
        let known = self.lock().take(size);
        let memory = match known {
            Some(memory) => memory,
            None => Memory::zeroed(size)?,
        };
        Some(Loan {
            memory: Some(memory),
            pool: self.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    fn take(&mut self, size: usize) -> Option<Memory> {
        self.takes += 1;
        let suiting = self.memory.iter().enumerate();
        let at = suiting
            .filter(|(_, (_, memory))| memory.suits(size))
            .min_by_key(|(_, (_, memory))| memory.capacity())
            .map(|(at, _)| at)?;
        let (_, memory) = self.memory.remove(at)?;
        self.bytes -= memory.capacity();
        Some(memory)
    }

    fn give_back(&mut self, memory: Memory, max_bytes: usize) {
        self.bytes += memory.capacity();
        self.memory.push_back((self.takes, memory));
        while self.bytes > max_bytes || self.oldest_is_stale() {
            let Some((_, oldest)) = self.memory.pop_front() else {
                break;
            };
            self.bytes -= oldest.capacity();
        }
    }

    fn oldest_is_stale(&self) -> bool {
        let oldest = self.memory.front();
        oldest.is_some_and(|(since, _)| self.takes - since > IDLE_TAKES)
    }
}

/// Memory of a pool that is in use; dropping the loan returns the memory to the pool.
struct Loan {
    memory: Option<Memory>,
    pool: Arc<Shared>,
}

impl Loan {
    fn start(&self) -> *mut u8 {
        self.memory().start.as_ptr()
    }

    fn memory(&self) -> &Memory {
        self.memory.as_ref().expect("there until it is dropped")
    }

    /// Gives the pages behind the first `kept` bytes back to the system, which provides new pages
    /// at the next write.
    ///
    /// # Safety
    /// No reference to the bytes behind `kept` may exist, because the content of these bytes is
    /// lost.
    #[cfg(unix)]
    unsafe fn discard_behind(&self, kept: usize) {
        // SAFETY: no pointers are involved.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).unwrap_or(usize::MAX);
        let first = self.start().addr();
        let capacity = self.memory().capacity();
        let end = (first + capacity) / page * page;
        // Python may say any number; the sum with a larger one would wrap, and lie below `first`.
        let Some(from) = (first + kept.min(capacity)).checked_next_multiple_of(page) else {
            return;
        };
        if from < end {
            let start = self.start().wrapping_add(from - first);
            // SAFETY: whole pages within memory that this loan owns, of which the caller says that
            // nobody needs them. Where the system refuses, the pages stay.
            unsafe { libc::madvise(start.cast(), end - from, libc::MADV_DONTNEED) };
        }
    }

    #[cfg(not(unix))]
    unsafe fn discard_behind(&self, _kept: usize) {}
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.pool.lock().give_back(memory, self.pool.max_idle_bytes);
        }
    }
}

#[pyclass(name = "BodyPool", module = "kubextend.core", frozen)]
pub(crate) struct PyBodyPool(Arc<Shared>);

#[pymethods]
impl PyBodyPool {
    #[new]
    #[pyo3(signature = (max_idle_bytes = 536_870_912))]
    fn new(max_idle_bytes: usize) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            max_idle_bytes,
        }))
    }

    fn take(&self, size: usize) -> PyResult<PyBodyBuffer> {
        let loan = self.0.take(size);
        let loan = loan.ok_or_else(|| PyMemoryError::new_err(format!("no {size} bytes left")))?;
        Ok(PyBodyBuffer {
            loan: Arc::new(loan),
            len: size,
            writers: AtomicUsize::new(0),
        })
    }

    #[getter]
    fn idle_bytes(&self) -> usize {
        self.0.lock().bytes
    }

    fn clear(&self) {
        let mut idle = self.0.lock();
        idle.memory.clear();
        idle.bytes = 0;
    }

    fn __repr__(&self) -> String {
        format!("<BodyPool: {} idle bytes>", self.idle_bytes())
    }
}

impl PyBodyPool {
    /// Returns a sealed buffer of `size` bytes that `write` fills without the GIL.
    fn written(
        &self,
        py: Python<'_>,
        size: usize,
        write: impl FnOnce(&mut Sink<'_>) + Send,
    ) -> PyResult<PyBodyBuffer> {
        let buffer = self.take(size)?;
        py.detach(|| {
            // SAFETY: `size` bytes that nobody else knows of yet.
            let mut sink = unsafe { Sink::over(buffer.loan.start(), size) };
            write(&mut sink);
            sink.finish();
        });
        buffer.writers.store(SEALED, Ordering::Release);
        Ok(buffer)
    }
}

/// The value of the count of writable views that means: sealed, no writable view may be opened.
const SEALED: usize = usize::MAX;

#[pyclass(name = "BodyBuffer", module = "kubextend.core", frozen)]
pub(crate) struct PyBodyBuffer {
    loan: Arc<Loan>,
    len: usize,
    writers: AtomicUsize,
}

impl PyBodyBuffer {
    /// Seals the buffer, so that its bytes never change again, and returns its memory.
    fn seal(&self) -> PyResult<SealedBytes> {
        let ended = self
            .writers
            .compare_exchange(0, SEALED, Ordering::AcqRel, Ordering::Acquire);
        match ended {
            Ok(_) | Err(SEALED) => Ok(SealedBytes {
                loan: self.loan.clone(),
                len: self.len,
            }),
            Err(_) => Err(PyBufferError::new_err(
                "a view of the buffer is still open for writing; release it first",
            )),
        }
    }

    /// Counts one more writable view; false if the buffer is sealed, so that no view may write.
    fn count_writer(&self) -> bool {
        let more = |views: usize| (views != SEALED).then(|| views + 1);
        self.writers
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
            .is_ok()
    }

    fn discount_writer(&self) {
        self.writers.fetch_sub(1, Ordering::AcqRel);
    }
}

#[pymethods]
impl PyBodyBuffer {
    fn __len__(&self) -> usize {
        self.len
    }

    fn discard_behind(&self, kept: usize) -> PyResult<()> {
        if !self.count_writer() {
            let read = "the buffer was read, so its bytes stay";
            return Err(PyBufferError::new_err(read));
        }
        // SAFETY: the buffer is not sealed, so that only pointers lead to its bytes.
        unsafe { self.loan.discard_behind(kept) };
        self.discount_writer();
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<BodyBuffer: {} bytes>", self.len)
    }

    // SAFETY: the interpreter calls this with a view for it to fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let body = slf.get();
        let writable = body.count_writer();
        // SAFETY: `len` bytes from there live as long as the loan, which the buffer holds and the
        // view holds the buffer. A view is writable only while no reference to them exists.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                body.loan.start().cast(),
                body.len.cast_signed(),
                c_int::from(!writable),
                flags,
            )
        };
        if filled == 0 {
            return Ok(());
        }
        if writable {
            body.discount_writer();
        }
        Err(PyErr::fetch(slf.py()))
    }

    // SAFETY: the interpreter calls this once for each view that was filled.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: the view is the one that was filled.
        if unsafe { (*view).readonly } == 0 {
            self.discount_writer();
        }
    }
}

/// The bytes of a sealed buffer.
struct SealedBytes {
    loan: Arc<Loan>,
    len: usize,
}

impl AsRef<[u8]> for SealedBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: as many initialised bytes, alive as long as the loan; the buffer was sealed
        // while no writable view was open, and opens none since.
        unsafe { std::slice::from_raw_parts(self.loan.start(), self.len) }
    }
}

/// The bytes of a request's body, in a Python bytes object or in pooled memory.
pub(crate) struct RequestBody(Body);

impl<'a, 'py> FromPyObject<'a, 'py> for RequestBody {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(buffer) = given.cast::<PyBodyBuffer>() {
            return Ok(Self(Body::new(buffer.get().seal()?)));
        }
        Ok(Self(Body::new(given.extract::<PyBackedBytes>()?)))
    }
}

impl From<RequestBody> for Body {
    fn from(body: RequestBody) -> Self {
        body.0
    }
}

/// A writer that fills new memory from its start.
pub(crate) struct Sink<'m> {
    next: *mut u8,
    left: usize,
    memory: PhantomData<&'m mut u8>,
}

impl Sink<'_> {
    /// # Safety
    /// No other code may use the `left` bytes from `next` while the sink lives.
    unsafe fn over(next: *mut u8, left: usize) -> Self {
        Self {
            next,
            left,
            memory: PhantomData,
        }
    }

    /// Writes bytes behind those that were written before.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.left, "an answer longer than it said");
        // SAFETY: so many bytes are left, and none of them is part of `bytes`.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.next, bytes.len());
            self.next = self.next.add(bytes.len());
        }
        self.left -= bytes.len();
    }

    /// Checks that all of the memory was written.
    fn finish(self) {
        assert_eq!(self.left, 0, "an answer shorter than it said");
    }
}

/// Returns a response of `size` bytes that `write` fills: a buffer of the pool if the response is
/// large and there is a pool, else a bytes object.
pub(crate) fn answer<'py>(
    py: Python<'py>,
    pool: Option<&PyBodyPool>,
    size: usize,
    write: impl FnOnce(&mut Sink<'_>) + Send,
) -> PyResult<Bound<'py, PyAny>> {
    match pool {
        Some(pool) if size >= SMALLEST_POOLED => {
            let buffer = pool.written(py, size, write)?;
            Ok(Bound::new(py, buffer)?.into_any())
        }
        _ => Ok(bytes(py, size, write)?.into_any()),
    }
}

/// Returns a bytes object of `size` bytes that `write` fills without the GIL.
pub(crate) fn bytes(
    py: Python<'_>,
    size: usize,
    write: impl FnOnce(&mut Sink<'_>) + Send,
) -> PyResult<Bound<'_, PyBytes>> {
    /// Makes a pointer movable into the closure that runs without the GIL.
    struct Start(*mut u8);
    // SAFETY: what it points to is known to this function alone.
    unsafe impl Send for Start {}
    impl Start {
        fn address(self) -> *mut u8 {
            self.0
        }
    }

    // SAFETY: a new object of that size, or null with an exception set; nobody else has seen it,
    // so that its content may still be written.
    let (bytes, start) = unsafe {
        let new = ffi::PyBytes_FromStringAndSize(std::ptr::null(), size.cast_signed());
        let bytes = Bound::from_owned_ptr_or_err(py, new)?.cast_into_unchecked::<PyBytes>();
        let start = Start(ffi::PyBytes_AsString(bytes.as_ptr()).cast());
        (bytes, start)
    };
    py.detach(move || {
        // SAFETY: the object has `size` bytes, and this function its only reference.
        let mut sink = unsafe { Sink::over(start.address(), size) };
        write(&mut sink);
        sink.finish();
    });
    Ok(bytes)
}
