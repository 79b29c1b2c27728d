//! The HTTP boundary: how a function reads a request of API Gateway, answers
//! it, and turns whatever went wrong into one documented problem.

mod event;
mod function;
mod problem;
mod reply;
mod request;

pub use event::readable;
pub use function::{HttpFunction, invoke, serve};
pub use problem::{Code, Problem};
pub use reply::{Cache, Reply};
pub use request::Call;
