"""Show streams to users.

`sse`, `vercel` and `ag_ui` turn the stream of a call or turn into the body of a response.

    async def answer(request):
        frames = rungwise.ui.sse(client.astream(question))
        return StreamingResponse(frames, headers=frames.headers)
"""

from typing import TYPE_CHECKING

from rungwise.lazy import lazy_names

if TYPE_CHECKING:  # the list of public names; each is imported when it is first used
    from rungwise.adapters.ui.frames import Frames as Frames
    from rungwise.adapters.ui.protocols import ag_ui as ag_ui
    from rungwise.adapters.ui.protocols import sse as sse
    from rungwise.adapters.ui.protocols import vercel as vercel
    from rungwise.adapters.ui.resuming import ResumableStreams as ResumableStreams
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__, others=("rungwise", "rungwise.core", "rungwise.testing")
    )
